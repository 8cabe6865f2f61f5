"""Crews that change in real processes: workers are killed, leave with notice and join, and the others end with equal weights."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.nn.functional as F

import polyrhythm as pr
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import CrewChanged, Stepped
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.view import NextView, ViewChange
from polyrhythm.core.processes.runtime.beats import Liveness, PeerFinding
from polyrhythm.core.processes.runtime.crew_lead import CrewLead
from polyrhythm.core.processes.runtime.node_crew import ARRIVE, CHANGE, END, ENTERED, FINISH, HELD, HOLD, SETTLE
from polyrhythm.core.processes.spawn import launched_run
from polyrhythm.core.processes.spawn.child_watch import STOPPED_SECONDS, Reaction, replace_stopped
from polyrhythm.core.processes.spawn.process_crew import ProcessCrew
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.hardware.faults import Crash, Fault, Join, Leave
from polyrhythm.systems import resolve

STEPS = 120


@dataclass(frozen=True)
class Train:
    """Steps of a small model, slow ones until so many workers have `come` or left; the hash of the final weights goes to a file.

    `each` is called before each step.
    """

    folder: Path
    come: int = 1
    each: Callable[[pr.Worker, int], None] = lambda worker, step: None

    def __call__(self, worker: pr.Worker) -> None:
        torch.manual_seed(0)
        model = torch.nn.Linear(6, 3)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
        seen = ["before"] * self.come if worker.clock else []  # a newcomer has nobody to wait for
        worker.on_change(lambda change: seen.extend([*change.joined, *change.left]))
        for step in worker.range(STEPS):
            self.each(worker, step)
            time.sleep(0.015 * (len(seen) < self.come))
            x = torch.randn(8, 6, generator=torch.Generator().manual_seed(100 * step + worker.rank))
            worker.count(8)
            optimizer.zero_grad()
            F.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
            optimizer.step()
        worker.finish()
        digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest()
        (self.folder / str(os.getpid())).write_text(digest)


def run(train: Train, system: str = "allreduce", faults: Iterable[Fault] = (), crew: Crew = Crew(1, 3)) -> Attempt:  # noqa: B008
    tried = attempt(train, workers=crew, strategy=resolve(system), on=pr.Processes(faults=tuple(faults), timeout=20.0))
    assert tried.error is None
    assert tried.outcome.summary.steps == STEPS
    digests = [path.read_text() for path in train.folder.iterdir()]
    assert len(set(digests)) == 1, "workers end with equal weights"
    assert len(digests) == len(changes(tried)[-1].members)
    return tried


def changes(tried: Attempt) -> list[CrewChanged]:
    return [event for event in tried.outcome.events if isinstance(event, CrewChanged)]


@pytest.mark.parametrize(
    ("system", "name"),
    [("allreduce", "worker/0"), ("ssp", "worker/1"), ("diloco", "worker/0"), ("gossipgrad", "worker/1"), ("downpour", "worker/0")],
)
def test_a_worker_that_is_killed_is_replaced(system: str, name: str, tmp_path: Path) -> None:
    tried = run(Train(tmp_path), system, [Crash(name, step=5)])
    summary, last = tried.outcome.summary, changes(tried)[-1]
    assert summary.lost == [name]
    assert len(last.members) == 3
    [joined] = last.joined
    steps = [event for event in tried.outcome.events if isinstance(event, Stepped)]
    assert summary.samples == sum(8 * sum(event.actor == each for event in steps) for each in {event.actor for event in steps})
    assert {event.actor for event in steps} == {"worker/0", "worker/1", "worker/2", joined}


def test_two_workers_are_lost_after_the_same_step(tmp_path: Path) -> None:
    tried = run(Train(tmp_path, come=2), faults=[Crash("worker/1", step=5), Crash("worker/0", step=5)])
    assert sorted(tried.outcome.summary.lost) == ["worker/0", "worker/1"]
    assert len(changes(tried)[-1].members) == 3


def test_a_worker_is_lost_while_a_newcomer_attaches(tmp_path: Path) -> None:
    def each(worker: pr.Worker, step: int) -> None:
        if step == 0 and worker.rank == 1:
            worker.on_change(lambda change: os.kill(os.getpid(), signal.SIGKILL) if change.joined else None)

    tried = run(Train(tmp_path, 2, each), faults=[Crash("worker/0", step=5)])
    assert tried.outcome.summary.lost == ["worker/0", "worker/1"]


def test_a_worker_that_is_asked_to_end_leaves_with_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launched_run, "_TOGETHER_SECONDS", 0.05)

    def each(worker: pr.Worker, step: int) -> None:
        if step == 5 and worker.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    tried = run(Train(tmp_path, 1, each))
    [change] = changes(tried)
    assert (change.members, change.left, tried.outcome.summary.lost) == (("worker/0", "worker/2"), ("worker/1",), [])


def test_workers_leave_and_join_by_faults_at_a_server_too(tmp_path: Path) -> None:
    tried = run(Train(tmp_path, come=2), "ssp", [Leave("worker/0", step=4), Join(step=12)])
    assert [(change.joined, change.left) for change in changes(tried)] == [((), ("worker/0",)), (("worker/3",), ())]


def test_with_too_few_workers_left_the_run_fails(tmp_path: Path) -> None:
    crew, faults = Crew(2, 3, replace=False, wait=0.0), (Crash("worker/1", step=3), Crash("worker/2", step=3))
    tried = attempt(Train(tmp_path), workers=crew, strategy=resolve("allreduce"), on=pr.Processes(faults=faults))
    assert isinstance(tried.error, WorkerFailed)
    assert "at least 2 are needed" in str(tried.error)


class Supervised:
    """A supervisor and its children, to whom messages are noted."""

    def __init__(self, *names: str) -> None:
        self.sent: list[tuple[str, Message]] = []
        self.killed: list[str] = []
        self.children: dict[str, Any] = {}
        for name in names:
            self.add(name, name)

    def add(self, name: str, like: str) -> None:
        self.children[name] = Child(name, self.sent)

    def kill(self, name: str) -> None:
        self.killed.append(name)

    def broadcast(self, message: Message) -> None:
        for child in self.children.values():
            child.link.send_control(message)

    def take(self) -> list[tuple[str, str, tuple[float, ...]]]:
        sent = [(name, message.topic, message.numbers) for name, message in self.sent]
        self.sent.clear()
        return sent


@dataclass
class Child:
    name: str
    sent: list[tuple[str, Message]] = field(repr=False)
    dead: bool = False
    result: Message | None = None

    @property
    def link(self) -> Child:
        return self

    def send_control(self, message: Message) -> None:
        self.sent.append((self.name, message))


@dataclass
class Observer:
    """Notes what a crew reports, and waits for nothing."""

    seen: list[ViewChange] = field(default_factory=list)

    def changed(self, change: ViewChange) -> None:
        self.seen.append(change)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        call()

    def failed(self, error: WorkerFailed) -> None:
        raise error


def crewed(size: int = 2, essential: bool = True) -> tuple[CrewLead, Supervised, list[ViewChange]]:
    """The lead of a crew of so many workers, all `essential` or, but for the first, none."""
    crew, supervised, observer = Crew(1, size), Supervised(*workers(size)), Observer()
    job = Job(size, 0, lambda context: None, lambda port, record: None, lambda name: essential, crew=crew)  # type: ignore[arg-type, return-value]
    processes = ProcessCrew(job, supervised, Location("site", "host"), False, observer)  # type: ignore[arg-type]
    return processes.lead, supervised, observer.seen


def test_messages_of_an_earlier_view_count_no_more() -> None:
    crew, supervised, seen = crewed()
    crew.lose("worker/1", "killed")
    assert [change.after.members for change in seen] == [("worker/0",)]
    notice = msgspec.json.decode(supervised.sent[0][1].text, type=NextView)
    assert (notice.change.lost, notice.locations) == (frozenset(["worker/1"]), (("site", "host"),))
    assert [(name, topic) for name, topic, _ in supervised.take()] == [("worker/0", CHANGE), ("worker/1", CHANGE)]
    crew.received("worker/3", Message(ARRIVE, (0.0,)))  # the newcomer is in no view yet
    assert supervised.take() == [("worker/0", HOLD, (1.0,))]
    crew.received("worker/0", Message(HELD, (0.0, 7.0)))
    assert supervised.take() == []
    crew.received("worker/0", Message(HELD, (1.0, 7.0)))
    assert supervised.take() == [("worker/0", SETTLE, (1.0, 8.0))]
    crew.received("worker/0", Message(ARRIVE, (0.0,)))
    assert len(seen) == 1
    crew.received("worker/0", Message(ARRIVE, (1.0,)))
    assert seen[1].after.members == ("worker/0", "worker/3")


def test_a_loss_interrupts_while_others_are_on_their_way_into_the_view() -> None:
    crew, _, seen = crewed(3, essential=False)
    crew.lose("worker/0", "killed")  # the first
    crew.received("worker/1", Message(ENTERED, (1.0,)))
    crew.lose("worker/2", "killed")  # nobody could go on without it: worker/2 had not come in
    assert [change.lost for change in seen] == [{"worker/0"}, {"worker/2"}]


def test_the_steps_of_a_lost_worker_are_known_until_all_have_entered_the_view_after_it() -> None:
    crew, _, seen = crewed(4)
    crew.authority.steps = {"worker/1": 5, "worker/2": 6}.get
    crew.lose("worker/1", "killed")
    crew.received("worker/3", Message(ENTERED, (1.0,)))
    crew.lose("worker/2", "killed")
    for name in ("worker/0", "worker/3"):
        crew.received(name, Message(ENTERED, (2.0,)))
    crew.lose("worker/3", "killed")
    assert [change.steps for change in seen] == [(("worker/1", 5),), (("worker/1", 5), ("worker/2", 6)), ()]


def test_a_newcomer_that_is_lost_before_its_first_step_has_completed_those_before_it() -> None:
    crew, _, seen = crewed()
    crew.lose("worker/1", "killed")
    crew.received("worker/3", Message(ARRIVE, (0.0,)))
    for topic, numbers in ((HELD, (1.0, 7.0)), (ARRIVE, (1.0,))):
        crew.received("worker/0", Message(topic, numbers))
    crew.lose("worker/3", "killed")
    assert seen[-1].steps == (("worker/3", 8),)


def test_a_loss_does_not_interrupt_once_all_have_taken_a_step_in_the_view() -> None:
    crew, _, seen = crewed(3, essential=False)
    crew.lose("worker/0", "killed")
    for name in ("worker/1", "worker/2"):
        crew.received(name, Message(ENTERED, (1.0,)))
    crew.lose("worker/2", "killed")
    assert [change.lost for change in seen] == [{"worker/0"}]


def test_who_has_left_and_is_lost_before_its_end_is_waited_for_no_longer() -> None:
    crew, supervised, seen = crewed()
    assert crew.leave("worker/1")
    assert not crew.leave("worker/0"), "it is the last"
    for name in ("worker/0", "worker/1"):
        crew.received(name, Message(HELD, (0.0, 3.0)))
        crew.received(name, Message(ARRIVE, (0.0,)))
    crew.lose("worker/1", "killed")
    assert [(change.after.members, change.lost) for change in seen] == [
        (("worker/0",), frozenset()),
        (("worker/0",), frozenset(["worker/1"])),
    ]
    assert supervised.children.keys() == {"worker/0", "worker/1"}, "nobody replaces one that has left"


def test_when_a_worker_takes_no_more_steps_newcomers_are_dismissed_and_no_loss_can_be_made_good() -> None:
    crew, supervised, _ = crewed()
    crew.lose("worker/1", "killed")
    supervised.take()
    crew.received("worker/3", Message(ARRIVE, (0.0,)))
    crew.received("worker/0", Message(FINISH, (1.0,)))
    assert supervised.take()[-1] == ("worker/0", END, (1.0,))
    assert supervised.killed == ["worker/3"]
    assert crew.dismissed == {"worker/3"}
    with pytest.raises(WorkerFailed, match="killed, and others have taken their last step"):
        crew.lose("worker/0", "killed")


def test_after_three_newcomers_that_are_lost_at_once_no_more_are_started() -> None:
    crew, supervised, _ = crewed()
    crew.lose("worker/1", "killed")
    for name in ("worker/3", "worker/5", "worker/7"):
        assert name in supervised.children
        crew.lose(name, "killed")
    assert len(supervised.children) == 5
    assert crew.authority.view.members == ("worker/0",)
    with pytest.raises(WorkerFailed):
        crew.lose("worker/0", "killed")


def test_only_workers_that_are_stopped_for_long_are_replaced() -> None:
    now = time.monotonic()
    long, short = now - STOPPED_SECONDS - 1, now - 1
    found = [
        ("worker/1", Liveness.STOPPED, long),
        ("worker/1", Liveness.STOPPED, short),
        ("worker/1", Liveness.HELD, long),
        ("server/0", Liveness.STOPPED, long),
    ]
    reactions = [replace_stopped(name, PeerFinding(name, verdict, since)) for name, verdict, since in found]
    assert reactions == [Reaction.REPLACE, Reaction.WAIT, Reaction.WAIT, Reaction.WAIT]


def test_where_the_crew_is_fixed_nobody_can_leave(tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match="crew is fixed"):
        pr.run(Train(tmp_path), workers=2, on=pr.Processes(faults=(Leave("worker/1", step=2),)))
