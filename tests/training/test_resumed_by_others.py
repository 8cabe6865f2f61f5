"""Runs that are resumed by another number of workers, or by other groups of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kinds import fewest
from torch import nn

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.checkpoints.checkpoint import Checkpoint
from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.errors import CheckpointError

Program = Callable[[pr.Worker], object]
NAMES = sorted(systems.SYSTEMS)
SERVERS = "what a server holds is not divided anew"
REFUSED = {"bigdl": SERVERS, "rudra-adv": SERVERS, "rudra-adv-star": SERVERS, "yu": SERVERS, "climate": "another worker does now"}
"""Systems whose state does not fit another number of workers."""


def train(worker: pr.Worker) -> None:
    """A net with dropout, under a schedule."""
    drawn = torch.Generator().manual_seed(3)
    x = torch.randn(120, 12, generator=drawn)
    y = (x[:, :3].sum(1, keepdim=True) > 0).float()
    model = nn.Sequential(nn.Linear(12, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.5)
    worker.attach(model, optimizer)
    for _ in worker.epochs(1):
        for inputs, targets in worker.batches((x, y), 4):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    worker.report(loss=1.0)


def run(name: Any, workers: int, directory: Path, resume: int = 0, program: Program = train, on: Runtime | None = None) -> pr.Run:
    """A run that writes a checkpoint after every second step; it continues from that after step `resume`, if one is given."""
    wanted = pr.Checkpoints(directory, every=2, keep=100, resume=directory / f"step-{resume:08d}" if resume else False)
    simulator = pr.Simulator(network="lan" if systems.resolve(name).shares_memory else "wan-3")
    return pr.run(program, workers=workers, strategy=name, on=on or simulator, seed=5, checkpoints=wanted)


def first(directory: Path, after: int) -> int:
    """The first step after `after` that has a checkpoint: where workers rest, not every step has one."""
    return min(step for path in directory.glob("step-*") if (step := int(path.name[5:])) > after)


def in_turn(name: Any, directory: Path, program: Program = train, on: Runtime | None = None) -> pr.Run:
    """Four workers up to a checkpoint, then three, then five to the end."""
    run(name, 4, directory, program=program, on=on)
    step = first(directory, 1)
    run(name, 3, directory, step, program, on)
    return run(name, 5, directory, first(directory, step), program, on)


@pytest.mark.parametrize("name", fewest([name for name in NAMES if name not in {*REFUSED, "single"}]))
def test_what_four_workers_began_three_and_then_five_bring_to_an_end(name: str, tmp_path: Path) -> None:
    ended = in_turn(name, tmp_path)
    assert all(torch.isfinite(weights).all() for weights in ended.weights.values())
    last = Checkpoint(max(tmp_path.glob("step-*")))
    assert (len(last.manifest.members), last.manifest.changes) == (5, 2)
    exchange = systems.find(name).exchanges[0][1]
    if exchange.agreement.payload.is_gradient and exchange.topology.traits.how == "collectively" and not exchange.topology.traits.late:
        replicas = [last.read(f"worker/{rank}")["replicas"][0]["parts"][0]["model"]["weights"] for rank in range(5)]
        assert all(torch.equal(weights, replicas[0]) for weights in replicas)


@pytest.mark.parametrize("name", REFUSED)
def test_a_system_whose_state_does_not_fit_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=REFUSED[name]):
        in_turn(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", ["allreduce", "ssp", "gossipgrad"])
def test_processes_are_resumed_by_another_number_of_them(name: str, tmp_path: Path) -> None:
    ended = in_turn(name, tmp_path, on=pr.Processes())
    assert all(torch.isfinite(weights).all() for weights in ended.weights.values())


def push(worker: pr.Worker) -> None:
    """A constant gradient: the weights show how many contributions have counted."""
    model = nn.Linear(6, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    worker.attach(model, optimizer)
    toward = torch.tensor([[1.0, -2.0, 3.0, 0.5, -0.25, 4.0]])
    for _ in worker.range(8):
        worker.count(1)
        optimizer.zero_grad()
        (model.weight * toward).sum().backward()
        optimizer.step()


def produced(weights: torch.Tensor) -> torch.Tensor:
    """How many of its pushes have changed each weight."""
    toward = torch.tensor([[1.0, -2.0, 3.0, 0.5, -0.25, 4.0]])
    return (1 - weights) / (0.01 * toward)


@pytest.mark.parametrize("codec", [pr.codec.Identity(), pr.codec.ErrorFeedback(pr.codec.TopK(0.2))], ids=str)
@pytest.mark.parametrize("period", [1, 4])
def test_what_workers_had_computed_who_have_left_counts_once(period: int, codec: Any, tmp_path: Path) -> None:
    """The steps of four workers up to the second, three up to the sixth, and five up to the eighth, are 30."""
    strategy = pr.Strategy(consistency=pr.consistency.LocalSteps(period), codec=codec, merge=pr.merge.Sum(), name="sums")
    for workers, after in ((4, 0), (3, 2), (5, 6)):
        ended = run(strategy, workers, tmp_path, after, push, pr.Simulator())
    last = Checkpoint(max(tmp_path.glob("step-*")))
    states = [last.read(f"worker/{rank}")["replicas"][0]["parts"][0] for rank in range(5)]
    kept = sum((state["channel"]["codec"].get("residual", torch.zeros(6)) for state in states), torch.zeros(6))
    weights = ended.weights["weight"] - kept if last.manifest.step == 8 else ended.weights["weight"]
    torch.testing.assert_close(produced(weights), torch.full((1, 6), 30.0), rtol=1e-3, atol=1e-3)


def learns(seen: list[tuple[int, int]]) -> Program:
    """A program that notes the samples of each step."""

    def program(worker: pr.Worker) -> None:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        worker.attach(model, optimizer)
        for _ in worker.epochs(2):
            for (numbers,) in worker.batches((torch.arange(103.0).view(-1, 1),), 4):
                seen.extend((worker.clock, int(number)) for number in numbers.view(-1))
                optimizer.zero_grad()
                model(numbers).sum().backward()
                optimizer.step()

    return program


@pytest.mark.parametrize("name", ["allreduce", "ssp", "gossipgrad"])
def test_each_sample_of_an_epoch_is_in_one_step(name: str, tmp_path: Path) -> None:
    used: list[int] = []
    for workers, after, until in ((4, 0, 2), (3, 2, 4), (5, 4, 10**6)):
        seen: list[tuple[int, int]] = []
        ended = run(name, workers, tmp_path, after, learns(seen), pr.Simulator())
        used += [sample for step, sample in seen if after <= step < until]
    counts = torch.bincount(torch.tensor(used), minlength=103)
    assert set(counts.tolist()) <= {1, 2}, "twice in two epochs, or once where fewer samples are left than workers"
    assert (counts == 1).sum() < 2 * 5
    assert ended.summary.samples == len(used)


def draws(worker: pr.Worker) -> None:
    """Each worker draws from a stream of its port, and from the global generators."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    worker.attach(model, optimizer)
    for _ in worker.range(6):
        worker.count(1)
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        port = worker._context.port.scoped(f"{worker.rank}/")
        worker.report(own=float(port.rng("test").random()), common=float(np.random.random()))


def drawn(ended: pr.Run, rank: int, name: str) -> list[float]:
    """What a worker has reported under this name."""
    return [event.metrics[name] for event in ended.outcome.events if isinstance(event, Reported) and event.actor == f"worker/{rank}"]


def test_a_worker_that_joins_repeats_no_number_of_an_earlier_one_of_its_name(tmp_path: Path) -> None:
    four = run("allreduce", 4, tmp_path, program=draws, on=pr.Simulator())
    three = run("allreduce", 3, tmp_path, 2, draws, pr.Simulator())
    again = run("allreduce", 4, tmp_path, 4, draws, pr.Simulator())
    for name in ("own", "common"):
        found = [drawn(ended, rank, name) for ended in (four, again) for rank in (0, 3)] + [drawn(three, 0, name)]
        newcomer, earlier = found[3], found[1]
        assert len(newcomer) == 2
        assert not set(newcomer) & {*earlier, *found[0], *found[2], *found[4]}
    assert drawn(again, 0, "common") == drawn(four, 0, "common")[4:], "a worker that stays draws on from its own generators"


def test_the_record_says_who_has_resumed_it_and_what_became_of_those_who_left(tmp_path: Path) -> None:
    run("ako", 4, tmp_path, program=push)
    fewer = run("ako", 3, tmp_path, 4, push)
    text = fewer.outcome.settings["how it resumes"]
    assert "Resumed by 3 workers, where 4 had written it. worker/0 has inherited of worker/3: what codecs kept to send later" in text
    assert "Lost with worker/3: random streams and variables of its own." in text
    more = run("ako", 5, tmp_path, 6, push).outcome.settings["how it resumes"]
    assert "Resumed by 5 workers, where 3 had written it. worker/3, worker/4 begin with the state of worker/0." in more


def test_other_groups_of_as_many_workers_take_over_too(tmp_path: Path) -> None:
    run("hierarchical", 4, tmp_path, on=pr.Simulator(network="wan-3"))
    run("hierarchical", 4, tmp_path, 2, on=pr.Simulator(network="lan"))
    assert Checkpoint(max(tmp_path.glob("step-*"))).manifest.changes == 1


def test_only_the_first_worker_reads_the_files_of_those_who_have_left(tmp_path: Path) -> None:
    run("allreduce", 4, tmp_path, program=push, on=pr.Simulator())
    damaged = tmp_path / "step-00000002" / "worker-3.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"worker-3\.safetensors"):
        run("allreduce", 3, tmp_path, 2, push, pr.Simulator())
    assert json.loads((tmp_path / "step-00000002" / "manifest.json").read_text())["changes"] == 0
