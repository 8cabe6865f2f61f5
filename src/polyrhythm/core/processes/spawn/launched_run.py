"""The launcher's side of one run: starts the actors, follows them, and decides how the run ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from polyrhythm.core.kernel.comparison import Comparisons
from polyrhythm.core.kernel.events import AnyEvent, CrewChanged, Faulted, Recorder, Stepped, Suspected
from polyrhythm.core.kernel.job import Ending, Job
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.kernel.stopping import asked_first
from polyrhythm.core.kernel.view import ViewChange
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.runtime.agreement import AgreementCollector, comparison_of
from polyrhythm.core.processes.runtime.beats import LOOK_SECONDS
from polyrhythm.core.processes.runtime.node_crew import CREW
from polyrhythm.core.processes.runtime.stall_detection import Patience, StallDetector, report
from polyrhythm.core.processes.runtime.status import ActorStatus
from polyrhythm.core.processes.runtime.whole_run import of_whole_run
from polyrhythm.core.processes.spawn.child_watch import ChildWatch, OnStalled, wait
from polyrhythm.core.processes.spawn.fork_client import ForkClient
from polyrhythm.core.processes.spawn.process_crew import ProcessCrew
from polyrhythm.core.processes.spawn.process_faults import ProcessFaults
from polyrhythm.core.processes.spawn.requested_stop import RequestedStop
from polyrhythm.core.processes.spawn.step_counts import StepCounts
from polyrhythm.core.processes.spawn.supervisor import SupervisedChild, Supervisor
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.errors import CompositionError, PolyrhythmError, RunError, Stopped, WorkerFailed, sentence
from polyrhythm.hardware.faults import Fault

_LOOK_SECONDS = 1.0
_TOGETHER_SECONDS = 1.0
"""A batch system signals all processes of a job, one after the other."""
_RELEASE_SECONDS = 10.0
"""So long the processes of a run that is over may take to exit."""


class LaunchedRun:
    """One run of `job`, whose actors have `startup` seconds to come up; `execute` once. Observes the supervisor of its children.

    Where the crew may change, all workers are at one `place`, and share memory if that `shares`.
    """

    def __init__(
        self,
        job: Job,
        record: Recorder,
        startup: float,
        patience: Patience,
        on_stalled: OnStalled = wait,
        faults: Sequence[Fault] = (),
        place: Location = Location("", ""),  # noqa: B008 (a frozen value)
        shares: bool = False,
        counts: StepCounts | None = None,
    ) -> None:
        self._job = job
        self._record = record
        self._startup = startup
        self._patience = patience
        self._loop = EventLoop()
        self._supervisor = Supervisor(self._loop, self)
        self._collector, self._comparisons = AgreementCollector(), Comparisons()
        self._watch = ChildWatch(self._supervisor, patience.beats, self._note, on_stalled)
        self._detector = StallDetector(patience, reason=self._watch.observer.reason)
        self._origin, self._started = 0.0, False
        self._failure: PolyrhythmError | Stopped | None = None
        self._stop: RequestedStop | None = None
        self._signalled: dict[str, int] = {}
        self._lost: list[str] = []
        self._faults = ProcessFaults(faults, self._loop, self._supervisor, record, lambda: time.monotonic() - self._origin)
        self._faults.over = self._is_over
        self._crew = ProcessCrew(job, self._supervisor, place, shares, self, counts)
        if self._crew.changes:
            self._faults.joins, self._faults.leaves = lambda fault: self._crew.lead.join(), self._crew.lead.leave

    def execute(self, client: ForkClient, devices: dict[str, str], job_spec: int, preload: Iterable[str]) -> Ending:
        """Start an actor for each of `devices` and see the run to its end. Closes `job_spec`."""
        try:
            if self._crew.changes:
                self._supervisor.keep(devices, job_spec)
            self._supervisor.start(client, devices, job_spec, preload)
            self._loop.after(self._startup, self._check_startup)
            with asked_first(lambda problem: self._loop.call(lambda: self._request_stop(problem))):
                self._loop.run()
            if self._failure is not None:
                with suppress(RunError, OSError):  # a fork server that does not respond must not hide why the run failed
                    client.clear()
                self._supervisor.drain()  # what the actors had still recorded before they were killed
                raise self._failure
            if self._stop is not None:
                raise self._stop.problem
            return self._ending()
        finally:
            self._supervisor.close()
            self._crew.close()
            self._faults.close()
            self._loop.close()

    # What the supervisor reports

    def came_up(self, child: SupervisedChild) -> None:
        """The run begins when all are up; afterwards somebody joins it, and everybody must know the address."""
        if self._started:
            self._watch.admit(child.name)
            self._faults.follow(child)
            self._supervisor.begin(self._supervisor.table, self._origin)
        elif self._supervisor.up:
            self._started, now = True, time.monotonic()
            self._origin = now - self._job.began
            self._detector.begin(self._supervisor.children, now)
            self._watch.begin()
            self._look()
            self._look_at_beats()
            self._supervisor.begin(self._supervisor.table, self._origin)
            self._faults.begin()

    def recorded(self, child: SupervisedChild, events: Iterable[AnyEvent]) -> None:
        """Events of one actor, with the bytes that all have sent."""
        total = sum(other.bytes_sent for other in self._supervisor.children.values())
        for event in events:
            if isinstance(event, Stepped):
                self._detector.note_step(event.actor, event.clock, time.monotonic())
                self._crew.stepped(event)
            self._record(of_whole_run(event, child.bytes_sent, total))

    def received(self, child: SupervisedChild, message: Message) -> None:
        """Handle the other messages of an actor's runtime."""
        match message.topic:
            case "agree" | "compare" if message.numbers[0] != self._crew.lead.epoch:
                return  # of an earlier view
            case "agree":
                self._collector.add(child.name, message)
                self._check_agreement()
            case "compare":
                if found := self._comparisons.add(child.name, comparison_of(message)):
                    self.failed(CompositionError(found))
            case "condition":
                self._detector.update(child.name, msgspec.json.decode(message.text, type=ActorStatus), time.monotonic())
                if (deadlock := self._detector.deadlock(time.monotonic())) is not None and self._may_end:
                    self.failed(deadlock)
            case "moment":
                self._faults.reach(child, message.text)
            case "held" | "stopped" if self._stop is not None:
                self._stop.received(child.name, message)
            case "signalled":
                self._loop.after(_TOGETHER_SECONDS, lambda: self._end_signalled(child, int(message.numbers[0])))
            case topic if topic.startswith(CREW):
                self._crew.lead.received(child.name, message)

    def ended(self, child: SupervisedChild) -> None:
        """An actor has ended well, which the others must know."""
        self._forget(child.name)
        self._supervisor.broadcast(Message("ended", text=child.name))
        if self._crew.changes and is_worker(child.name) and not self._crew.lead.present(child.name):
            child.link.send_control(Message("release"))  # it has left, and nobody waits for it
        self._check_end()

    def lost(self, child: SupervisedChild, why: str) -> None:
        """A process or a link is gone: the end of the run, something for the others to know, or just the exit of one that has ended."""
        self._lose(child, why)
        if self._supervisor.gone and all(map(self._is_over, self._supervisor.children.values())):
            self._loop.stop()

    def raised(self, child: SupervisedChild, error: PolyrhythmError) -> None:
        """The run ends, or `child` had joined it, and the others continue."""
        if child.name in (*self._lost, *self._crew.lead.dismissed):
            return
        if (fatal := self._crew.lead.authority.fatal(child.name, error)) is not None:
            self.failed(fatal)
        else:
            self._lose(child, f"failed before its first step: {sentence(error)}")
            self._supervisor.kill(child.name)

    def failed(self, error: PolyrhythmError | Stopped) -> None:
        """The run ends with its first error."""
        if self._failure is None:
            self._failure = error if self._stop is None else self._stop.problem
        self._loop.stop()

    # What follows from it

    def _lose(self, child: SupervisedChild, why: str) -> None:
        if self._failure is not None or self._is_over(child):
            return
        if child.name in self._signalled:
            why = failure.exit_reason(-self._signalled[child.name])
        scheduled = self._faults.reason(child.name)
        why = f"{scheduled}: {why}" if scheduled else why
        if self._stop is not None:
            self._stop.lose()
        changes = self._crew.changes and is_worker(child.name)
        if not self._started or (self._job.essential(child.name) and not changes):
            self.failed(WorkerFailed(child.name, why))
            return
        self._lost.append(child.name)
        self._forget(child.name)
        if not scheduled:  # else it was recorded when it happened
            self._record(Faulted(time.monotonic() - self._origin, child.name, why))
        if not self._workers_left():
            self.failed(WorkerFailed(child.name, f"{why}, and no other worker is left"))
        elif changes:
            self._crew.lose(child.name, why)
        else:
            self._supervisor.broadcast(Message("lost", text=child.name))
        self._check_agreement()
        self._check_end()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make `call` so many seconds later."""
        self._loop.after(seconds, call)

    def changed(self, change: ViewChange) -> None:
        """The crew changes: what its members agree on and compare is counted anew."""
        now, view = time.monotonic(), change.after
        self._collector, self._comparisons = AgreementCollector(), Comparisons()
        for name in change.joined:
            self._detector.admit(name, now)
        self._record(CrewChanged(now - self._origin, view.first, view.epoch, view.members, change.joined, change.left))

    def _request_stop(self, problem: Stopped) -> None:
        """A signal asks the run to end: with a last checkpoint, if it can have one."""
        self._crew.freeze()
        self._stop = RequestedStop(problem, self._supervisor, self._workers_left(), self.failed)
        self._stop.begin(self._loop, self._job.grace if self._started else 0.0)

    def _end_signalled(self, child: SupervisedChild, number: int) -> None:
        """A child was sent a signal that asks it to end; where all were, this process was too, and decides for them."""
        if self._stop is None and not child.dead and not (self._crew.changes and self._crew.lead.leave(child.name)):
            self._signalled[child.name] = number
            child.link.send_control(Message("end", (float(number),)))

    @property
    def _may_end(self) -> bool:
        """True if those who all wait are deadlocked: the run is not ending, and they do not wait for a fault to end."""
        return self._stop is None and not self._faults.lasting

    def _is_over(self, child: SupervisedChild) -> bool:
        """True if nothing more is expected of it."""
        return child.ended is not None or child.name in self._lost or child.name in self._crew.lead.dismissed

    def _workers_left(self) -> list[str]:
        if self._crew.changes:
            return list(self._crew.lead.authority.view.members)
        return [name for name in self._supervisor.children if is_worker(name) and name not in self._lost]

    def _check_end(self) -> None:
        if all(map(self._is_over, self._supervisor.children.values())):
            self._supervisor.release()
            self._loop.after(_RELEASE_SECONDS, self._loop.stop)  # who does not exit, or whose exit is not reported, is killed

    def _check_agreement(self) -> None:
        if (difference := self._collector.settle(self._workers_left())) is not None:
            self._supervisor.broadcast(Message("agreed", (float(self._crew.lead.epoch),), difference))

    def _look(self) -> None:
        """Look for a stalled actor that others wait for."""
        now = time.monotonic()
        stall, expired = self._detector.look(now), self._detector.expired(now)
        if stall is not None:
            report(stall)
            self._record(Faulted(now - self._origin, stall.culprits[0], f"makes no progress: {stall.sentence}"))
        if expired is not None:
            self.failed(expired)
        self._loop.after(min(_LOOK_SECONDS, self._patience.notice / 4), self._look)

    def _look_at_beats(self) -> None:
        """Find out who is suspected, and do about it what the policy says."""
        self._watch.look(time.monotonic())
        self._loop.after(LOOK_SECONDS, self._look_at_beats)

    def _note(self, suspected: Suspected) -> None:
        """Record it, in seconds of the run."""
        self._record(msgspec.structs.replace(suspected, time=suspected.time - self._origin, since=suspected.since - self._origin))

    def _forget(self, name: str) -> None:
        """The actor `name` has ended, or is lost."""
        self._detector.forget(name, time.monotonic())
        self._watch.forget(name)

    def _check_startup(self) -> None:
        if not self._started:
            late = ", ".join(child.name for child in self._supervisor.children.values() if child.address is None)
            self.failed(RunError(f"{late} did not start within {self._startup:g} seconds: give a longer time with Processes(startup=...)."))

    def _ending(self) -> Ending:
        children = self._supervisor.children
        return Ending(
            self._crew.results(self._lost),
            sum(child.bytes_sent for child in children.values()),
            sum(child.messages_sent for child in children.values()),
            max((child.ended for child in children.values() if child.ended is not None), default=0.0),
            list(self._lost),
            first=self._crew.lead.authority.view.first,
        )
