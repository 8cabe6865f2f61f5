"""What every engine must do, as functions of a runtime: each engine's tests call them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import polyrhythm as pr
from polyrhythm.core.kernel.events import CrewChanged, Restarted
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.training.crew_change import CrewChange
from polyrhythm.errors import WorkerFailed

STEPS = 40
CONVERGED = 1.05
"""Above this loss a run has not learned: three classes at random are 1.0986."""


def training(folder: str = "", at: int = 0, deed: str = "") -> Callable[[pr.Worker], None]:
    """A training function; once, at step `at`, its worker 1 does `deed`, of which a file in `folder` is the memory."""

    def train(worker: pr.Worker) -> None:
        drawn = torch.Generator().manual_seed(1)
        x = torch.randn(400, 20, generator=drawn)
        y = x[:, :3].argmax(1)
        model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        worker.attach(model, optimizer)
        loss = torch.zeros(())
        for _ in range(2):
            for inputs, targets in worker.batches((x, y), 10):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(inputs), targets)
                loss.backward()
                optimizer.step()
                if deed and worker.rank == 1 and worker.clock == at:
                    do(deed, Path(folder) / "done")
            worker.report(loss=loss)
            print(f"worker {worker.rank} printed this")

    def do(deed: str, memory: Path) -> None:
        if memory.exists():
            return
        memory.touch()
        if deed == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyError("no such column")

    return train


def expected(strategy: str = "allreduce") -> pr.Run:
    """The undisturbed run on this host."""
    return pr.run(training(), workers=2, strategy=strategy, on=pr.Processes(), seed=3)


def has_the_bits_of_processes(on: Runtime) -> None:
    """All-reduce gives the same weights wherever its workers are; all events and the totals come back."""
    here, there = expected(), pr.run(training(), workers=2, strategy="allreduce", on=on, seed=3)
    assert there.summary.on == on.kind
    assert there.summary.weights_sha256 == here.summary.weights_sha256
    assert (there.summary.steps, there.summary.samples) == (STEPS, here.summary.samples)
    assert there.summary.bytes_sent == here.summary.bytes_sent
    assert there.summary.final == here.summary.final


def runs(on: Runtime, strategy: str, directory: Path) -> None:
    """A system whose result depends on the order of messages learns, and its record is whole."""
    run = pr.run(training(), workers=2, strategy=strategy, on=on, seed=3, directory=directory)
    assert run.summary.steps == STEPS
    assert run.summary.final["loss"] < CONVERGED
    assert {path.name for path in directory.iterdir()} >= {"run.json", "events.jsonl", "weights.safetensors"}


def continues_after_a_loss(on: Runtime, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A killed worker is named, the run goes on from its newest checkpoint, and ends with the bits of an undisturbed one."""
    memory = folder / "memory"
    memory.mkdir()
    train = training(str(memory), at=27, deed="die")
    run = pr.run(
        train,
        workers=2,
        strategy="allreduce",
        on=on,
        seed=3,
        checkpoints=pr.Checkpoints(folder / "checkpoints", every=10),
        directory=folder / "record",
    )
    assert (memory / "done").exists()
    assert "worker/1 failed" in capfd.readouterr().err
    assert run.summary.weights_sha256 == expected().summary.weights_sha256
    assert run.summary.steps == STEPS
    lines = (folder / "record" / "events.jsonl").read_text("utf-8").splitlines()
    assert any('"Faulted"' in line and '"worker/1"' in line for line in lines)
    assert any('"Restarted"' in line and '"worker/1"' in line for line in lines)


def names_the_users_error(on: Runtime, folder: Path) -> None:
    """An exception of the training function is not tried again, and comes with its traceback."""
    with pytest.raises(WorkerFailed, match=r"worker/1 failed: KeyError: 'no such column'") as caught:
        pr.run(training(str(folder), at=5, deed="raise"), workers=2, strategy="allreduce", on=on, seed=3)
    assert "do(deed" in caught.value.trace


class Latest:
    """The step after which the crew of `worker` has changed last."""

    def __init__(self, worker: pr.Worker) -> None:
        self.step = 0
        worker.on_change(self.changed)

    def changed(self, change: CrewChange) -> None:
        self.step = change.step


def changing(folder: str, kills: int) -> Callable[[pr.Worker], None]:
    """A training function that ends 3 steps after the second change; before the first, worker `kills` dies."""

    def train(worker: pr.Worker) -> None:
        drawn = torch.Generator().manual_seed(1)
        x = torch.randn(96, 20, generator=drawn)
        y = x[:, :3].argmax(1)
        latest, model = Latest(worker), torch.nn.Linear(20, 3)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in worker.epochs(100_000):
            for inputs, targets in worker.batches((x, y), 4):
                optimizer.zero_grad()
                F.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
                if worker.clock == 20 and worker.rank == kills and not worker.crew.epoch:
                    (Path(folder) / "killed").touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
                if worker.any(worker.crew.epoch >= 2 and worker.clock >= latest.step + 3):
                    break
            else:
                continue
            break
        worker.finish()
        torch.save([worker.crew.members, list(model.state_dict().values())], Path(folder) / f"end-{os.getpid()}.pt")

    return train


def a_crew_replaces_a_lost_worker(on: Runtime, folder: Path, workers: int = 3, kills: int = 1) -> None:
    """One is killed, the others do not begin again, its successor joins them, and all end with equal weights."""
    run = pr.run(changing(str(folder), kills), workers=(workers - 1, workers), strategy="allreduce", on=on, seed=3)
    assert run.summary.lost == [f"worker/{kills}"]
    assert not any(isinstance(event, Restarted) for event in run.outcome.events)
    changes = [event for event in run.outcome.events if isinstance(event, CrewChanged)]
    assert [event.epoch for event in changes] == [1, 2]
    assert changes[1].joined == (f"worker/{kills + workers}",)
    ends = [torch.load(path) for path in folder.glob("end-*.pt")]
    assert [tuple(members) for members, _ in ends] == [changes[1].members] * workers
    for _, weights in ends:
        assert all(torch.equal(mine, whole) for mine, whole in zip(weights, run.weights.values(), strict=True))
