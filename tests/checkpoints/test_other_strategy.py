"""A run that continues the checkpoint of another strategy."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import polyrhythm as pr
from polyrhythm.core.kernel.events import AnyEvent, Evaluated, Saved
from polyrhythm.core.training.checkpoint_plan import RESUMES, SWITCHED
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import BrokenOff, CheckpointError
from polyrhythm.systems import find

x = torch.randn(96, 10, generator=torch.Generator().manual_seed(0))
y = x[:, :4].argmax(1)
SYSTEMS = ("allreduce", "ssp", "sparknet", "adpsgd", "fedavg")
PAIRS = [
    pytest.param(*pair, marks=[] if pair in (("allreduce", "ssp"), ("ssp", "sparknet"), ("fedavg", "allreduce")) else pytest.mark.long)
    for pair in itertools.permutations(SYSTEMS, 2)
]


def train(worker: pr.Worker) -> None:
    """Momentum, buffers, and a rate that falls from epoch to epoch."""
    model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    worker.keep(schedule=schedule)
    worker.evaluate(lambda found: {"loss": F.cross_entropy(found(x), y).item()})
    for _ in worker.epochs(6):
        for a, b in worker.batches((x, y), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(a), b).backward()
            optimizer.step()
        schedule.step()
    worker.report(rate=optimizer.param_groups[0]["lr"])


def broken_off(system: str, directory: Path) -> Attempt:
    """A run that is broken off when its checkpoint after step 8 is whole."""

    def watch(event: AnyEvent) -> None:
        if isinstance(event, Saved):
            raise BrokenOff("that is enough")

    on = pr.Simulator("lan")
    return attempt(train, workers=3, strategy=find(system), on=on, seed=1, checkpoints=pr.Checkpoints(directory, every=8), watch=watch)


def losses(made: Attempt) -> list[float]:
    return [event.metrics["loss"] for event in made.outcome.events if isinstance(event, Evaluated)]


@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("workers", [2, 3])
def test_the_weights_the_optimizer_and_the_place_in_the_data_go_on(before: str, after: str, workers: int, tmp_path: Path) -> None:
    broken_off(before, tmp_path)
    resumed = pr.Checkpoints(resume=tmp_path, override=["strategy"])
    second = attempt(train, workers=workers, strategy=find(after), on=pr.Simulator("lan"), seed=1, checkpoints=resumed)
    assert second.error is None
    assert second.outcome.settings[RESUMES].startswith("Its own") or second.outcome.settings[RESUMES].startswith(SWITCHED)
    assert losses(second)[0] < 1.25  # it begins with trained weights; those of a new model give 1.4
    assert losses(second)[-1] < losses(second)[0]
    assert second.outcome.summary.final["rate"] == pytest.approx(0.05 * 0.9**6)  # and ends where the schedule does


def test_without_the_override_another_strategy_is_refused(tmp_path: Path) -> None:
    broken_off("allreduce", tmp_path)
    with pytest.raises(CheckpointError, match=r"override=\['strategy'\] the weights go on"):
        pr.run(train, workers=3, strategy="ssp", on=pr.Simulator("lan"), seed=1, checkpoints=pr.Checkpoints(resume=tmp_path))
    own = pr.Checkpoints(tmp_path, every=8, resume=True, override=["strategy"])
    with pytest.raises(CheckpointError, match="another directory for checkpoints"):
        pr.run(train, workers=3, strategy="ssp", on=pr.Simulator("lan"), seed=1, checkpoints=own)


def test_the_same_strategy_goes_on_as_ever_with_the_override(tmp_path: Path) -> None:
    whole = pr.run(train, workers=3, strategy="allreduce", on=pr.Simulator("lan"), seed=1)
    broken_off("allreduce", tmp_path)
    resumed = pr.Checkpoints(resume=tmp_path, override=["strategy"])
    again = pr.run(train, workers=3, strategy="allreduce", on=pr.Simulator("lan"), seed=1, checkpoints=resumed)
    assert again.summary.weights_sha256 == whole.summary.weights_sha256
