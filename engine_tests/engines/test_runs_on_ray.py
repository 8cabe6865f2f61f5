"""Runs of a comparison and of a plan as tasks of Ray: a cluster of this host."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray
import torch

import polyrhythm as pr
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import ProgressLine, Watch, ignore
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import PolyrhythmError, WorkloadError
from polyrhythm.tools.pools.pools import pool_of

X = torch.linspace(-1, 1, 256).view(-1, 1)


def train(worker: pr.Worker, epochs: int = 4, learning_rate: float = 0.1, batch_size: int = 8) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    worker.attach(model, optimizer)
    worker.evaluate(lambda found: {"loss": (found(X) - 2 * X).square().mean().item()})
    for _ in range(epochs):
        for (x,) in worker.batches((X,), batch_size=batch_size):
            optimizer.zero_grad()
            (model(x) - 2 * x).square().mean().backward()
            optimizer.step()


@dataclass(frozen=True)
class Small:
    """A run of `train` under a system; `broken` is one that cannot be begun."""

    name: str
    broken: bool = False

    def attempt(self, directory: Path | None, watch: Watch = ignore, checkpoints: Checkpoints | None = None) -> Attempt:
        if self.broken:
            raise WorkloadError("broken: mend it.")
        return attempt(train, workers=2, strategy=pr.systems.find(self.name), on=pr.Simulator(network="slow"), seed=3)

    def failed(self, error: PolyrhythmError) -> Attempt:
        return Attempt(Outcome(Summary(self.name, 2, "simulator", "slow", 3, error=str(error)), state="failed"), error)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def made(pool: str, *tasks: Small) -> list[tuple[int, Attempt]]:
    ended: list[tuple[int, Attempt]] = []
    pool_of(pool)(2, ProgressLine(None, 1), lambda *end: ended.append(end)).work((place, task, None) for place, task in enumerate(tasks))
    return sorted(ended, key=lambda end: end[0])


def test_it_has_the_bytes_of_processes_of_this_host() -> None:
    tasks = [Small(name) for name in ("allreduce", "ssp", "sparknet")]
    here, there = made("host", *tasks), made("ray", *tasks)
    assert [attempt.outcome.summary for _, attempt in here] == [attempt.outcome.summary for _, attempt in there]
    assert [attempt.outcome.events for _, attempt in here] == [attempt.outcome.events for _, attempt in there]


def test_a_run_that_cannot_be_started_ends_all() -> None:
    with pytest.raises(WorkloadError, match="mend it"):
        made("ray", Small("allreduce"), Small("ssp", broken=True), Small("sparknet"))


def test_a_plan_is_made_there() -> None:
    plan = pr.plan(train, "loss=0.01", network="slow", workers=(2,), systems=["allreduce", "sparknet"], budget=20, jobs=2, pool="ray")
    assert plan.best is not None
    assert plan.best.seconds.middle < float("inf")
    assert not plan.best.extrapolated
