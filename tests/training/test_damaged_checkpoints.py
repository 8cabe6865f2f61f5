"""Runs that are resumed from damaged checkpoints: refused with a sentence, or the bits of an undamaged one."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from damages import DAMAGES
from torch import nn

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.errors import CheckpointError

SYSTEMS = (
    *("adpsgd", "allreduce", "byteps", "diloco", "downpour", "easgd"),
    *("gossipgrad", "hierarchical", "hogwild", "mxnet", "powersgd", "ssp"),
)
NEWEST, OLDER = "step-00000008", "step-00000004"


def train(worker: pr.Worker) -> None:
    drawn = torch.Generator().manual_seed(3)
    x = torch.randn(96, 6, generator=drawn)
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    worker.attach(model, optimizer)
    for (inputs,) in worker.batches((x,), 2):
        optimizer.zero_grad()
        (model(inputs) - inputs[:, :1]).square().mean().backward()
        optimizer.step()


def run(name: str, seed: int, resume: Path | None = None, checkpoint: Path | None = None) -> pr.Run:
    on = pr.Simulator(network="lan" if systems.find(name).shares_memory else "wan-3")
    if checkpoint is not None:
        return pr.run(train, workers=4, strategy=name, on=on, seed=seed, checkpoints=pr.Checkpoints(checkpoint, every=4, keep=3))
    assert resume is not None
    return pr.run(train, workers=4, strategy=name, on=on, seed=seed, checkpoints=pr.Checkpoints(resume=resume))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


def checkpoints_of(name: str, seed: int, kept: Path) -> Path:
    """The directory with those of steps 4 and 8 of a run of 12 steps, written when it is first asked for."""
    folder = kept / f"{name}-{seed}"
    if not folder.exists():
        run(name, seed, checkpoint=kept / "whole")
        shutil.rmtree(kept / "whole/step-00000012")
        (kept / "whole").rename(folder)
    return folder


def resumed_after_damage(kind: str, name: str, kept: Path, folder: Path) -> str:
    """How a resumed run of the system ends after that kind of damage: refused, or with the same bits."""
    draw = random.Random(f"{kind} {name}")
    system = draw.choice(SYSTEMS)
    whole, others = checkpoints_of(name, 1, kept), [checkpoints_of(name, 2, kept), checkpoints_of(system, 1, kept)]
    undamaged = run(name, 1, resume=whole / NEWEST).summary.weights_sha256
    shutil.copytree(whole, folder)
    DAMAGES[kind](folder / NEWEST, [folder / OLDER, *(other / NEWEST for other in others)], draw)
    try:
        again = run(name, 1, resume=folder)
    except CheckpointError:
        return "refused"
    assert again.summary.weights_sha256 == undamaged, f"{kind} of {name}: other bits"
    return "the same bits"


@pytest.mark.parametrize(("kind", "name"), [("a bit of a weight", "ssp"), ("two actors swapped", "allreduce")])
def test_a_run_is_not_resumed_from_what_another_has_written(kind: str, name: str, kept: Path, tmp_path: Path) -> None:
    assert resumed_after_damage(kind, name, kept, tmp_path / "damaged") == "refused"


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_no_damage_ends_with_other_bits(kind: str, kept: Path, tmp_path: Path) -> None:
    found = Counter(resumed_after_damage(kind, name, kept, tmp_path / name) for name in SYSTEMS)
    print(f"{kind}: {dict(found)}")
    assert found.total() == len(SYSTEMS)
