"""The driver of a run on an engine: tasks report to it, it lets them begin, and it decides how the run ends.

A run is attempted until it ends well, until it fails for a reason that another attempt would meet again, or until no restart is left. An
attempt begins when every task has connected, and is over when each has ended, has failed or was lost. After a loss the engine starts the
lost tasks again, those that are left stay, and the next attempt continues from the newest checkpoint. Where the crew changes, a loss
ends no attempt while others are left to continue. The record has all attempts, one after the other: their seconds and bytes are those of
the run, and steps after a checkpoint that were lost are in it twice.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import msgspec

from polyrhythm.core.kernel.events import AnyEvent, Evaluated, Faulted, Recorder, Restarted
from polyrhythm.core.kernel.job import Ending, Work
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.runtime.whole_run import of_whole_run
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.errors import NoProgressError, PolyrhythmError, RunError, TamperedError, WorkerFailed, sentence
from polyrhythm.launchers import messages
from polyrhythm.launchers.attempt import FixedAttempt, TaskAttempt
from polyrhythm.launchers.crew_attempt import CrewAttempt
from polyrhythm.launchers.packing import packed
from polyrhythm.launchers.protocol import Launcher, Tasks
from polyrhythm.launchers.roster import Roster, WorkerTask
from polyrhythm.launchers.run_clock import RunClock

_LOOK_SECONDS = 0.1
_LEAVING_SECONDS = 10.0


class Driver:
    """The driver of one run of `work` on `engine`; call `execute` once. Observes the roster of its tasks."""

    def __init__(self, engine: Launcher, work: Work, record: Recorder) -> None:
        self._engine = engine
        self._work = work
        self._record = record
        self._packed = packed(work, engine.threads, engine.timeout)
        self._loop = EventLoop()
        self._roster = Roster(self._loop, engine.driver_address(), work.workers, self)
        self._tasks: Tasks | None = None
        self._attempt: TaskAttempt | None = None
        self._attempts = 0
        self._began = 0
        self._restarts = engine.restarts
        self._lost: dict[int, WorkerFailed] = {}  # not started again yet, in the order in which they fell
        self._failed: PolyrhythmError | None = None  # with which the last attempt has ended, until what it needs is started again
        self._traffic: dict[int, tuple[int, int]] = {}
        self._clock = RunClock()
        self._before = (0, 0)
        self._deadline = self._soon = 0.0
        self._under_way = False
        self._error: PolyrhythmError | None = None
        self._decoder = msgspec.msgpack.Decoder(list[AnyEvent])

    def execute(self) -> Ending:
        """Have the engine start the tasks, and see the run to its end."""
        try:
            self._tasks = self._engine.start(self._roster.order(self._engine.echoes, self._work.crew))
            self._await_tasks()
            self._look()
            self._loop.run()
            if self._error is not None:
                raise self._error
            ending = self._ending()
        except BaseException as problem:
            self._close(_LEAVING_SECONDS if isinstance(problem, PolyrhythmError) else 0.0)
            raise
        self._close(_LEAVING_SECONDS)
        return ending

    def _ending(self) -> Ending:
        assert self._attempt is not None
        ending = self._attempt.ending
        assert ending is not None
        return replace(
            ending,
            seconds=self._clock.of_run(ending.seconds),
            bytes_sent=ending.bytes_sent + self._before[0],
            messages_sent=ending.messages_sent + self._before[1],
        )

    # What the roster reports

    def registered(self, task: WorkerTask) -> None:
        """The next attempt begins when all are there; in one that is under way others may come."""
        task.send(self._packed)
        if self._under_way and self._attempt is not None:
            self._attempt.came(task)
        elif self._failed is None and not self._roster.absent:
            self._begin()

    def received(self, task: WorkerTask, message: Message) -> None:
        """Handle a message of a task: recorded events, printed text, or how its worker ended."""
        match message.topic:
            case "events":
                self._receive_events(task, message)
            case "printed":
                stream, _, text = message.text.partition("\n")
                print(text, end="", file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)
            case "ended":
                self._conclude(task, messages.ending(task.worker, message))
            case "failed":
                self._fail(task, failure.rebuild(message))
            case "entered" | "door" if self._attempt is not None:
                self._attempt.received(task, message)

    def lost(self, task: WorkerTask, reason: str) -> None:
        """A loss ends a worker's part in the attempt; whenever it comes, the task is started again before the next."""
        why = self._lost.setdefault(task.rank, WorkerFailed(task.worker, reason))
        if self._under_way and self._attempt is not None:
            if self._attempt.takes_part(task):
                self._record(Faulted(self._clock.latest, task.worker, reason))
                self._conclude(task, why)
            self._attempt.fell(task)

    def _fail(self, task: WorkerTask, problem: PolyrhythmError) -> None:
        """`problem` has ended the part of a task; it may be that the others continue without it, and it was sent that."""
        if not self._work.crew.fixed and isinstance(problem, WorkerFailed) and problem.actor == task.member and not problem.trace:
            self._record(Faulted(self._clock.latest, task.member, problem.reason))
        self._conclude(task, problem)

    def _receive_events(self, task: WorkerTask, message: Message) -> None:
        nbytes, count = map(int, message.numbers)
        self._traffic[task.rank] = (nbytes, count)
        total = self._before[0] + sum(sent for sent, _ in self._traffic.values())
        for event in self._decoder.decode(message.tensors[0].numpy().data):
            if self._attempt is None or not self._attempt.admits(event):
                continue
            event = msgspec.structs.replace(event, time=self._clock.of_run(event.time))
            if isinstance(event, Evaluated):
                event = msgspec.structs.replace(event, since=self._clock.of_run(event.since))
            self._record(of_whole_run(event, nbytes, total))

    # Attempts

    def _begin(self) -> None:
        self._under_way, self._attempts, self._began = True, self._attempts + 1, self._roster.arrivals
        for rank in list(self._traffic):
            self._count(rank)
        self._lost = {rank: why for rank, why in self._lost.items() if not self._roster.tasks[rank].here}
        self._clock.begin_attempt()
        if self._attempt is not None:
            self._attempt.close()
        crew = self._work.crew
        if crew.fixed:
            self._attempt = FixedAttempt(self._roster, self._attempts)
        else:
            self._attempt = CrewAttempt(self._roster, self._attempts, crew, self._engine.starts_alone)

    def _count(self, rank: int) -> None:
        """What the task has sent is not in the totals that are to come."""
        nbytes, count = self._traffic.pop(rank, (0, 0))
        self._before = self._before[0] + nbytes, self._before[1] + count

    def _conclude(self, task: WorkerTask, outcome: Ending | PolyrhythmError) -> None:
        """The part of `task` in this attempt has ended so."""
        attempt = self._attempt
        if not self._under_way or attempt is None or not attempt.takes_part(task):
            return
        if not self._work.crew.fixed and not isinstance(outcome, Ending):
            self._count(task.rank)
        attempt.conclude(task, outcome)
        if attempt.fatal is None and not attempt.over:
            return
        if attempt.fatal is not None or attempt.ending is not None:
            self._error = attempt.fatal
            self._loop.stop()
        else:
            self._under_way, self._failed = False, attempt.cause(self._lost)

    def _start_again(self, cause: PolyrhythmError) -> None:
        """Have the lost tasks started again, all at once, if another attempt may end otherwise."""
        if not self._roster.arrivals:  # another attempt would not come further
            cause = RunError(f"No worker could be started: {cause.reason if isinstance(cause, WorkerFailed) else cause}")
        if not self._restarts or not _passing(cause) or not self._roster.arrivals:
            self._error = cause
            self._loop.stop()
            return
        self._restarts -= 1
        used = self._engine.restarts - self._restarts
        how = "continues from its newest checkpoint" if self._work.resumable else "begins anew, because it has no checkpoints"
        notify(f"{sentence(cause)}: the run {how} (restart {used} of {self._engine.restarts})")
        first = next(iter(self._lost), 0)
        self._record(Restarted(self._clock.latest, worker(first), sentence(cause)))
        self._await_tasks()
        assert self._tasks is not None
        lost, self._lost, self._failed = sorted(self._lost), {}, None
        for rank in self._tasks.restart(lost):
            self._roster.dismiss(self._roster.tasks[rank], self._began)
        if not self._roster.absent:
            self._begin()

    def _await_tasks(self) -> None:
        self._deadline = time.monotonic() + self._engine.startup
        self._soon = time.monotonic() + self._work.crew.wait

    def _look(self) -> None:
        """Ask the engine for tasks that were lost, and look whether those that are awaited have come."""
        assert self._tasks is not None
        for loss in self._tasks.losses():
            self._roster.lose(self._roster.tasks if loss.rank is None else [self._roster.tasks[loss.rank]], loss.reason)
        self._roster.look()
        if self._under_way and self._attempt is not None:
            self._attempt.look()
            self._replace(self._attempt.replaceable(self._lost))
        if not self._under_way and self._error is None and (why := self._failed or next(iter(self._lost.values()), None)) is not None:
            self._start_again(why)
        if not self._under_way and self._error is None and self._roster.absent:
            self._await_less()
        self._loop.after(_LOOK_SECONDS, self._look)

    def _replace(self, ranks: list[int]) -> None:
        """Have lost tasks started again, while the others continue."""
        for rank in ranks:
            del self._lost[rank]
        if ranks and self._tasks is not None:
            self._tasks.restart(ranks)

    def _await_less(self) -> None:
        """Some are missing. A crew that changes begins without them after a while, which is shorter after a loss, if it has its least."""
        enough = len(self._roster.tasks) - len(self._roster.absent) >= self._work.crew.least
        if enough and time.monotonic() > (min(self._soon, self._deadline) if self._attempts else self._deadline):
            self._begin()
        elif time.monotonic() > self._deadline:
            names = ", ".join(task.name for task in self._roster.absent)
            self._error = RunError(
                f"{names} did not reach the driver at {self._roster.ip}:{self._roster.port} within {self._engine.startup:g} seconds: see "
                "what the engine reports of its tasks; if it has no room for all of them yet, give a longer startup=."
            )
            self._loop.stop()

    def _close(self, seconds: float) -> None:
        """End all tasks, which have so many seconds to leave, and give everything back."""
        try:
            self._roster.broadcast(Message("stop"))
            if self._tasks is not None:
                self._tasks.close(seconds)
        finally:
            if self._attempt is not None:
                self._attempt.close()
            self._roster.close()
            self._loop.close()


def _passing(error: PolyrhythmError) -> bool:
    """True if another attempt may not meet this error: it is of processes and connections, not of the training function or an attacker."""
    if isinstance(error, TamperedError | NoProgressError) or (isinstance(error, WorkerFailed) and error.trace):
        return False
    return isinstance(error, RunError)


def drive(engine: Launcher, work: Work, record: Recorder) -> Ending:
    """Run `work` on `engine` to its end. Raises WorkerFailed and other RunErrors, as `Processes` does; no task is left afterwards."""
    return Driver(engine, work, record).execute()
