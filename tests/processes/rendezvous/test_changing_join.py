"""Crews that change under `pr.join`: the processes here come by themselves to an address, and only the outer run has started them."""

import atexit
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from ports import reserved_port
from toy import data, network

import polyrhythm as pr
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.rendezvous import crew_place
from polyrhythm.core.processes.rendezvous.crew_place import CrewPlace
from polyrhythm.core.processes.rendezvous.join import JoinedRun
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.core.records.load import load
from polyrhythm.core.training.crew_change import CrewChange
from polyrhythm.core.training.join_crew import given_crew
from polyrhythm.core.training.log import Log
from polyrhythm.errors import CompositionError, RunError, Stopped, WorkloadError

ROOT = Path(__file__).resolve().parents[3]
Deeds = dict[int, signal.Signals]
"""The signals that a process sends to itself, by the number of the change after which it does."""


async def no_service(port: Port, record: Recorder) -> None:
    return None


def together(program: Callable[[int], None], processes: int) -> None:
    """Call `program` with its number in so many processes, each of which may end in any way."""
    with reserved_port() as port:

        def alone(context: WorkerContext) -> None:
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            program(int(context.port.name.rpartition("/")[2]))

        Processes().execute(Job(processes, 0, alone, no_service, lambda name: False), lambda event: None)


class Witness:
    """The last change that `worker` has seen, and the step after which that was."""

    def __init__(self, worker: pr.Worker) -> None:
        self.since, self.change = 0, CrewChange(worker.crew.epoch, (), ())
        self.lost: list[str] = []
        worker.on_change(self.changed)
        self._worker = worker

    def changed(self, change: CrewChange) -> None:
        self.since, self.change = self._worker.clock, change
        self.lost += change.lost

    def after(self, steps: int) -> bool:
        return self._worker.clock >= self.since + steps


def train(system: str, number: int, deeds: Deeds, last: int, folder: Path) -> None:
    """Train until 3 steps after the change of number `last`; process `number` does its deeds 2 steps after a change."""
    worker = pr.join(system, workers=(2, 4), directory=folder / "records")
    witness = Witness(worker)
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for _ in worker.epochs(10_000):
        for x, y in worker.batches(data(), batch_size=4):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            (folder / f"step-{worker.crew.epoch}").touch()
            if witness.after(2) and worker.crew.epoch in deeds:
                os.kill(os.getpid(), deeds.pop(worker.crew.epoch))
            if worker.any(worker.crew.epoch >= last and witness.after(3)):
                break
        else:
            continue
        break
    run = worker.leave()
    torch.save((worker.crew.members, run.summary.steps, witness.lost, list(model.state_dict().values())), folder / f"end-{number}.pt")


def when(path: Path) -> None:
    """Wait until it exists."""
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("system", "deeds", "comes", "lost", "end"),
    [
        ("moshpit", {1: {2: signal.SIGKILL}, 2: {3: signal.SIGTERM}}, {2: 0, 3: 1}, "worker/1", ("worker/0", "worker/3")),
        ("allreduce", {1: {2: signal.SIGKILL}, 2: {3: signal.SIGTERM}}, {2: 0, 3: 1}, "worker/1", ("worker/0", "worker/3")),
        ("allreduce", {0: {1: signal.SIGKILL}, 1: {3: signal.SIGTERM}}, {2: 0, 3: 2}, "worker/0", ("worker/2", "worker/4")),
    ],
    ids=["one that is not needed", "any", "the first"],
)
def test_workers_join_one_is_killed_and_one_leaves_and_the_others_end_with_equal_weights(
    system: str, deeds: dict[int, Deeds], comes: dict[int, int], lost: str, end: tuple[str, ...], tmp_path: Path
) -> None:
    """Two begin; each of the others comes after the change of its number."""

    def program(number: int) -> None:
        if number in comes:
            when(tmp_path / f"step-{comes[number]}")
        elif number == 1:
            time.sleep(0.2)  # the one that comes first is worker/0
        try:
            train(system, number, deeds.get(number, {}), 4, tmp_path)
        except SystemExit as left:
            if left.code:
                raise
        finally:
            atexit._run_exitfuncs()

    together(program, 4)
    found = [torch.load(path) for path in sorted(tmp_path.glob("end-*.pt"))]
    assert [members for members, *_ in found] == [end, end]
    assert found[0][1] == found[1][1]
    assert found[0][2] == [lost]
    assert all(map(torch.equal, found[0][3], found[1][3]))
    states = {path.name: (path / "run.json").read_text() for path in (tmp_path / "records").iterdir()}
    assert len(states) == 4, "each process has a record"
    assert sum('"state": "ended"' in state for state in states.values()) == 3  # all but the one that was killed


def test_who_was_started_with_other_settings_or_is_one_too_many_is_refused(tmp_path: Path) -> None:
    def program(number: int) -> None:
        if number > 1:
            when(tmp_path / "go")
            if number == 2:
                with pytest.raises(CompositionError, match=r"seed.*start all workers with the same"):
                    pr.join("allreduce", workers=(2, 3), seed=5)
                (tmp_path / "refused").touch()
            return
        worker = pr.join("allreduce", workers=(2, 3))
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for _ in worker.epochs(10_000):
            for x, y in worker.batches(data(), batch_size=4):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            (tmp_path / "go").touch()
            if worker.any((tmp_path / "refused").exists()):
                break
        worker.leave()
        (tmp_path / f"end-{number}").touch()

    together(program, 3)
    assert len(list(tmp_path.glob("end-*"))) == 2


def test_a_worker_that_joins_and_fails_before_its_first_step_is_lost_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def program(number: int) -> None:
        if number < 2:
            train("allreduce", number, {}, 2, tmp_path)
            return
        when(tmp_path / "step-0")
        worker = pr.join("allreduce", workers=(2, 4))
        model = network()
        worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        with pytest.raises(WorkloadError, match=r"worker/2 has ended before it came to where the others are, in a "):
            worker.leave()

    together(program, 3)
    found = [torch.load(path) for path in sorted(tmp_path.glob("end-*.pt"))]
    assert [(members, lost) for members, _, lost, _ in found] == [(("worker/0", "worker/1"), ["worker/2"])] * 2
    assert capfd.readouterr().err.count("continues without worker/2, which failed before its first step: worker/2 has ended before") == 2


@pytest.mark.parametrize("where", [JoinedRun, Log])
def test_who_is_asked_to_end_when_all_have_trained_to_the_end_leaves_a_whole_record(where: Any, tmp_path: Path) -> None:
    """While it waits for the others, in `leave` of `JoinedRun`, or while its record is completed, in `close` of `Log`."""
    name = {JoinedRun: "leave", Log: "close"}[where]

    def program(number: int) -> None:
        usual = getattr(where, name)

        def asked(own: Any, *given: Any) -> Any:
            os.kill(os.getpid(), signal.SIGTERM)
            return usual(own, *given)

        if number == 1:
            setattr(where, name, asked)
        with suppress(Stopped):
            train("allreduce", number, {}, 0, tmp_path)

    together(program, 2)
    assert [load(directory).state for directory in sorted((tmp_path / "records").iterdir())] == ["ended", "ended"]


def test_what_a_crew_that_changes_cannot_have_is_refused_before_anybody_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompositionError, match="has servers"):
        pr.join("ssp", workers=(2, 4))
    with pytest.raises(CompositionError, match="writes no checkpoints"):
        pr.join("allreduce", workers=(2, 4), checkpoints=pr.Checkpoints("somewhere"))
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(CompositionError, match="belongs to one number of them"):
        pr.join("allreduce", workers=(2, 4))


def test_the_number_of_workers_is_that_of_the_variable_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_crew(None) is None
    monkeypatch.setenv("POLYRHYTHM_WORKERS", "2..8")
    assert given_crew(None) == pr.Crew(2, 8)
    assert given_crew(3) == pr.Crew(3, 3)


def test_the_first_of_several_hosts_begins_and_the_others_look_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_place, "_ELSEWHERE_SECONDS", 0.2)
    with reserved_port() as port:
        first, second = CrewPlace(("127.0.0.1", "127.0.0.2"), port), CrewPlace(("192.0.2.1", "127.0.0.1"), port)
        assert second.begin("", lambda caller: None) is None
        door = second.take_over("", lambda caller: caller.refuse(RunError("nobody is let in")))
        assert door is not None
        try:
            assert first.begin("", lambda caller: None) is None  # somebody has begun
            client = first.find(5.0)
            with pytest.raises(RunError, match="nobody is let in"):
                client.get(["answer"], 5.0)
            client.close()
        finally:
            door.close()


def test_the_page_has_the_script_of_the_examples() -> None:
    page, script = (ROOT / "docs" / "laptops.md").read_text(), (ROOT / "examples" / "joining" / "train.py").read_text()
    assert f"```python file=train.py\n{script}```" in page
