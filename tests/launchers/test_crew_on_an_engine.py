"""Crews that change on an engine, with real processes: one is killed, and the others do not begin again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from local_engine import LocalEngine, with_processes
from toy import data, network

import polyrhythm as pr
from polyrhythm.core.kernel.events import CrewChanged, Faulted, Restarted
from polyrhythm.core.training.crew_change import CrewChange
from polyrhythm.errors import CompositionError

STEPS = 12
Deed = Callable[[pr.Worker], bool]
"""Whether this worker kills itself now."""


class Latest:
    """The step after which the crew has changed last."""

    def __init__(self, worker: pr.Worker) -> None:
        self.step = 0
        worker.on_change(self.changed)

    def changed(self, change: CrewChange) -> None:
        self.step = change.step


def training(folder: Path, deed: Deed, last: int) -> Callable[[pr.Worker], None]:
    """Train for at least STEPS, until 3 steps after the change of number `last`; a file for each process says that it came to the end."""

    def train(worker: pr.Worker) -> None:
        latest = Latest(worker)
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for _ in worker.epochs(10_000):
            for x, y in worker.batches(data(), batch_size=4):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                if deed(worker):
                    os.kill(os.getpid(), signal.SIGKILL)
                if worker.any(worker.crew.epoch >= last and worker.clock >= max(STEPS, latest.step + 3)):
                    break
            else:
                continue
            break
        worker.finish()
        torch.save((worker.crew.members, list(model.state_dict().values())), folder / f"end-{os.getpid()}.pt")

    return train


def ran(folder: Path, processes: int, deed: Deed, last: int, system: str = "allreduce", **settings: object) -> pr.Run:
    """The run, on an engine that can start so many processes."""

    def drive(engine: LocalEngine) -> None:
        run = pr.run(training(folder, deed, last), workers=(2, 3), strategy=system, on=engine, **settings)  # type: ignore[arg-type]
        torch.save(run, folder / "run.pt")

    with_processes(folder, processes, drive)
    return torch.load(folder / "run.pt", weights_only=False)  # type: ignore[no-any-return]


def ends(folder: Path) -> list[tuple[tuple[str, ...], list[torch.Tensor]]]:
    return [torch.load(path) for path in folder.glob("end-*.pt")]


@pytest.mark.parametrize(("system", "rank"), [("allreduce", 1), ("allreduce", 0), ("diloco", 1), ("moshpit", 1)])
def test_one_is_killed_another_takes_its_place_and_all_end_with_equal_weights(system: str, rank: int, tmp_path: Path) -> None:
    run = ran(tmp_path, 4, lambda worker: worker.crew.epoch == 0 and worker.rank == rank and worker.clock == 5, 2, system)
    changes = [event for event in run.outcome.events if isinstance(event, CrewChanged)]
    assert changes[-1].epoch == 2
    assert {name for event in changes for name in event.left} | set(run.summary.lost) == {f"worker/{rank}"}
    assert changes[-1].joined == (f"worker/{rank + 3}",)
    assert [event.what for event in run.outcome.events if isinstance(event, Faulted)] == ["killed by signal 9 (SIGKILL)"]
    assert not any(isinstance(event, Restarted) for event in run.outcome.events)
    assert run.summary.lost == [f"worker/{rank}"]
    found = ends(tmp_path)
    assert [members for members, _ in found] == [changes[-1].members] * 3
    if system != "moshpit":
        for _, weights in found:
            for mine, whole in zip(weights, run.weights.values(), strict=True):
                assert torch.equal(mine, whole)


def test_when_all_are_killed_the_run_continues_from_its_newest_checkpoint(tmp_path: Path) -> None:
    memory = tmp_path / "killed"

    def deed(worker: pr.Worker) -> bool:
        (tmp_path / f"worker-{os.getpid()}").touch()
        if worker.clock != 8 or worker.rank or memory.exists():
            return False
        memory.touch()
        for path in tmp_path.glob("worker-*"):
            if (pid := int(path.name.partition("-")[2])) != os.getpid():
                os.kill(pid, signal.SIGKILL)
        return True

    run = ran(tmp_path, 6, deed, 0, checkpoints=pr.Checkpoints(tmp_path / "checkpoints", every=5))
    assert any(isinstance(event, Restarted) for event in run.outcome.events)
    assert run.summary.steps == STEPS
    assert [members for members, _ in ends(tmp_path)] == [("worker/0", "worker/1", "worker/2")] * 3


def test_checkpoints_are_written_on_after_the_first_was_lost(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    ran(
        tmp_path,
        4,
        lambda worker: worker.crew.epoch == 0 and worker.rank == 0 and worker.clock == 5,
        2,
        checkpoints=pr.Checkpoints(folder, every=2),
    )
    steps = sorted(int(path.name.partition("-")[2]) for path in folder.glob("step-*"))
    assert steps[-1] > 5


def test_a_strategy_with_servers_is_refused_before_anything_begins(tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match="has servers"):
        pr.run(training(tmp_path, lambda worker: False, 0), workers=(2, 3), strategy="ssp", on=LocalEngine(tmp_path))
