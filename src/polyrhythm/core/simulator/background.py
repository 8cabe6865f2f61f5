"""Coroutines that run while their program continues to compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.simulator.actors import BlockingProgram, VirtualTask
from polyrhythm.core.simulator.event_queue import EventQueue, Work


@dataclass(frozen=True, slots=True)
class BackgroundTasks:
    """Runs the background coroutines of each program in their order. `wake`, `over` and `worked` are the scheduler's."""

    queue: EventQueue
    wake: Callable[[VirtualTask, Any], None]
    over: Callable[[VirtualTask, Any, BaseException | None], None]
    worked: Callable[..., None]

    def begin(self, program: BlockingProgram, seconds: float) -> None:
        """Schedule what `program` has started within the `seconds` of computing that its device is about to be charged."""
        actor = program.actor
        start = max(actor.free_at, self.queue.now)
        for coroutine, part in program.take_started():
            task = VirtualTask(actor, coroutine, None, "in backward", beside=program)
            actor.tasks[task] = None
            program.line.join(task)
            due: Work = (self.call, program, task)
            self.queue.at(start + seconds * part, (self.worked, (actor, actor.stalled), due))

    def perform(self, program: BlockingProgram, task: VirtualTask) -> None:
        """Run `task`, for which the program waits, after all that was started before."""
        if program.line.idle:
            self.wake(task, None)
        else:
            program.line.join(task)
            self.call(program, task)

    def call(self, program: BlockingProgram, task: VirtualTask) -> None:
        """Mark `task` as due, and run it when it is the next."""
        program.line.call(task)
        self._admit(program, None)

    def end(self, program: BlockingProgram, error: BaseException | None) -> None:
        """A background coroutine of `program` has ended."""
        program.line.leave(error)
        self.queue.ready.append((self._admit, program, None))

    def _admit(self, program: BlockingProgram, _: None) -> None:
        """Wake the next task; after a failure the others are dropped, and the program gets the error."""
        task = program.line.admit()
        if task is None or program.actor.ended:
            return
        error = program.line.error
        if task.program is not None:  # the program waits for this one, so it is the last
            program.line.leave()
            program.line.take_error()
        if error is None:
            self.wake(task, None)
        else:
            task.coroutine.close()
            self.over(task, None, error)
