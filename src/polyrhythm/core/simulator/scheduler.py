"""The scheduler: runs the coroutines and programs of all actors in virtual time, one at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from polyrhythm.core.kernel.effects import (
    Compute,
    Enter,
    Flush,
    Receive,
    ReceiveAll,
    ShareMemory,
    Sleep,
    Spawn,
    Wait,
)
from polyrhythm.core.kernel.events import Computed, Ended, Recorder, Started, Waited
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.view import ViewChange, ViewChanged
from polyrhythm.core.simulator.actors import PENDING, BlockingProgram, VirtualActor, VirtualTask
from polyrhythm.core.simulator.background import BackgroundTasks
from polyrhythm.core.simulator.collectives import Reductions
from polyrhythm.core.simulator.deadlock import deadlock
from polyrhythm.core.simulator.event_parts import BEST, EventParts
from polyrhythm.core.simulator.event_queue import EventQueue
from polyrhythm.core.simulator.failure import fail
from polyrhythm.core.simulator.fault_log import FaultLog
from polyrhythm.core.simulator.flushes import Flushes
from polyrhythm.core.simulator.gradients.modes import ComputedAlone, GradientService
from polyrhythm.core.simulator.interruption import Closed, drop, interrupt
from polyrhythm.core.simulator.mailroom import Carrier, Mailroom, Notes
from polyrhythm.core.simulator.memories import VirtualMemories
from polyrhythm.core.simulator.native_sums import native_handlers
from polyrhythm.core.simulator.waits import waiting
from polyrhythm.errors import Stopped


@dataclass(eq=False)
class Scheduler:
    """Runs until every program has ended. `reductions` is None where collectives travel as messages, `stopped` as in `SharedState`."""

    queue: EventQueue
    actors: dict[str, VirtualActor]
    carrier: Carrier | None
    reductions: Reductions | None
    record: Recorder
    sends: Recorder | None = None
    arrivals: Recorder | None = None
    parts: EventParts = BEST
    ending: Ending = field(default_factory=Ending)
    stopped: dict[str, int] = field(default_factory=dict)
    faults: FaultLog = field(default_factory=FaultLog)
    gradients: GradientService = field(default_factory=ComputedAlone)

    def __post_init__(self) -> None:
        self._handlers: dict[type, Callable[[VirtualTask, Any], Any]] = {}
        self._timer = self._expire
        self.queue.timers(self._timer, lambda task, serial: task.serial != serial)
        self.runner = self.parts.runner(self.queue, self._handlers, self._over, self._timer)
        self.wake = self.runner.resume = self.gradients.guard(self.runner.wake)
        self.charge = self.runner.charge
        self.mailroom = Mailroom(self.queue, self.actors, self.carrier, self.runner, Notes(self.sends, self.arrivals), self.parts.post)
        self.beside = BackgroundTasks(self.queue, self.wake, self._over, self.runner.worked)
        self.memories = VirtualMemories()
        self.fail: Callable[[VirtualActor, BaseException], None] = lambda actor, problem: fail(actor.name, problem)  # of its program
        self.running = 0  # with those that are about to begin, and losses that are not noticed yet: the run ends with the last
        self.flushes = Flushes(self.queue, self.mailroom, self.carrier, self.wake)
        self._handlers |= {
            **self.mailroom.handlers,
            Receive: self.runner.receive,
            ReceiveAll: lambda task, effect: task.actor.take_all(effect.topic),
            Sleep: self.runner.sleep,
            Compute: self.runner.compute,
            **native_handlers(self.queue, self.mailroom, self.reductions, self.wake),
            Spawn: self._spawn,
            ShareMemory: lambda task, effect: self.memories.share(effect),
            Flush: self.flushes.wait,
            Wait: waiting(self.queue, self.wake),
            Enter: lambda task, effect: drop(task.actor, effect.epoch, task),
            Closed: lambda task, effect: PENDING,
        }

    def run(self) -> None:
        """Run until the last program has ended; raises the error if the run fails."""
        queue, carrier, arrive, ready = self.queue, self.carrier, self.mailroom.arrive, self.queue.ready
        while self.running:
            queue.drain(self)
            if not self.running:
                return
            if carrier is not None and carrier.fell_silent and self.flushes.release():
                continue
            flow = math.inf if carrier is None else carrier.next_time()
            if (time := queue.advance(flow)) == math.inf:
                joined = {} if self.reductions is None else self.reductions.joined()
                raise deadlock(queue.now, self.actors, joined, self.stopped, self.faults.cause)
            if carrier is not None and flow <= time:
                for channel in carrier.advance(time):
                    ready.append((arrive, channel, None))

    def begin(self, actor: VirtualActor) -> None:
        """Let `actor` start now: its program, or its tasks."""
        self.record(Started(self.queue.now, actor.name))
        for task in actor.tasks:
            self.queue.ready.append((self.wake, task, None))
        if actor.program is not None:
            self.running += 1
            self.queue.ready.append((self._proceed, actor.program, None))

    def lose(self, actor: VirtualActor) -> None:
        """Remove `actor`; its tasks are closed and messages to it are dropped."""
        self.ending.lost.append(actor.name)
        self.dismiss(actor)

    def dismiss(self, actor: VirtualActor) -> None:
        """End `actor` where it is, without a result."""
        self.mailroom.forget(actor)
        actor.end()
        if actor.program is not None:
            actor.program.kill()
            self.ending.seconds = self.queue.now
            self.running -= 1

    def interrupt(self, actor: VirtualActor, change: ViewChange) -> None:
        """Let the program of `actor` wait no longer for what it waits for: it raises ViewChanged."""
        if interrupt(actor, ViewChanged(change)) and actor.program is not None:
            self.queue.ready.append((self._interrupted, actor.program, None))

    def _interrupted(self, program: BlockingProgram, _: None) -> None:
        if (interruption := program.interruption) is not None:
            program.interruption = None
            self._proceed(program, None, interruption)

    def stall(self, actor: VirtualActor, seconds: float) -> None:
        """Stop `actor` for `seconds` from now; what it is computing ends as much later."""
        actor.stalled += seconds
        actor.free_at += seconds
        actor.held_until = max(actor.held_until, self.queue.now) + seconds

    def _over(self, task: VirtualTask, value: Any, error: BaseException | None) -> None:
        """A coroutine has ended: its program continues; a server ends with its main one; a failure that no program handles ends the run."""
        actor, now = task.actor, self.queue.now
        actor.tasks.pop(task, None)
        if task.program is not None:
            if now > task.program.since:
                self.record(Waited(now, actor.name, now - task.program.since))
            self._proceed(task.program, value, error)
        elif task.beside is not None:
            self.beside.end(task.beside, error)
        elif error is not None:
            fail(actor.name, error)
        elif not task.name:
            self._end(actor)

    def _end(self, actor: VirtualActor) -> None:
        for carried in self.mailroom.carried(actor):
            self.record(carried)
        self.record(Ended(self.queue.now, actor.name, actor.bytes_sent, actor.messages_sent))
        actor.end()

    def _proceed(self, program: BlockingProgram, value: Any, error: BaseException | None = None) -> None:
        """Resume a program until its next charge, `perform` or its end, and charge what it computes until then."""
        actor = program.actor
        if actor.ended:
            return
        program.since = self.queue.now
        try:
            request = program.run(value, error)
        except Stopped:
            raise
        except (Exception, SystemExit) as problem:
            self.fail(actor, problem)
            return
        if program.parked:
            return
        seconds, program.charged = program.charged, 0.0
        if program.started:
            self.beside.begin(program, seconds)
        if program.ended:
            self.charge(actor, seconds, (self._finish, program, request))
        elif request is None:
            self.charge(actor, seconds, (self.go_on, program, None))
        else:
            task = VirtualTask(actor, request, program)
            actor.tasks[task] = None
            self.charge(actor, seconds, (self._perform, program, task))

    def go_on(self, program: BlockingProgram, _: None) -> None:
        """Resume a program whose charge is over."""
        self._computed(program)
        self._proceed(program, None)

    def _perform(self, program: BlockingProgram, task: VirtualTask) -> None:
        self._computed(program)
        if program.interruption is not None:
            self._interrupted(program, None)
        else:
            task.performed = True
            self.beside.perform(program, task)

    def _finish(self, program: BlockingProgram, result: Any) -> None:
        if program.actor.ended:
            return
        self._computed(program)
        self.ending.results[program.actor.name] = result
        self.ending.seconds = self.queue.now
        self._end(program.actor)
        self.running -= 1

    def _computed(self, program: BlockingProgram) -> None:
        now = self.queue.now
        if now > program.since and not program.actor.ended:
            self.record(Computed(now, program.actor.name, now - program.since))
        program.since = now

    def _expire(self, task: VirtualTask, serial: int) -> None:
        """A wait has reached its timeout."""
        if task.serial == serial:
            assert isinstance(task.waiting, Receive)
            task.actor.give_up(task, task.waiting.topic)
            task.serial += 1
            self.wake(task, None)

    def _spawn(self, task: VirtualTask, effect: Spawn) -> None:
        spawned = VirtualTask(task.actor, effect.coroutine, None, effect.name or "spawned")
        task.actor.tasks[spawned] = None
        self.queue.ready.append((self.wake, spawned, None))
