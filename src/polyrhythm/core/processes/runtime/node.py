"""One actor in its process: the loop in a separate thread, and the program that hands coroutines over to it.

`spawn.child` makes a `Node` in each process that is started here, `rendezvous.join` in a process that joins a run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.effects import Effect, NativeReduction
from polyrhythm.core.kernel.events import AnyEvent, Recorder
from polyrhythm.core.kernel.message import CALL, Delivery, Message
from polyrhythm.core.kernel.port import Port, epoch_scope
from polyrhythm.core.processes.collectives.reducer import GroupReducer
from polyrhythm.core.processes.runtime.completion import Completion, ProgramWaits
from polyrhythm.core.processes.runtime.driving import drive, serves_alike
from polyrhythm.core.processes.runtime.executor import ActorExecutor, Done
from polyrhythm.core.processes.runtime.pending_agreement import PendingAgreement
from polyrhythm.core.processes.runtime.program_queue import ProgramQueue, QueuedCoroutine
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.runtime.status import StepTracker
from polyrhythm.core.processes.runtime.stop_point import StopPoint
from polyrhythm.core.processes.runtime.sums import Sums
from polyrhythm.core.processes.transport.addresses import Address, Listeners
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.core.processes.transport.handshake import Credentials
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.peers import Peers
from polyrhythm.errors import RunError

T = TypeVar("T")


class Node:
    """One actor's coroutines and its connections.

    `on_failure` is called once, in the loop's thread, when something failed outside of `complete`: a spawned coroutine, a
    peer, the loop. From then on `complete` raises that error. `on_connection_lost` is called when the connection with a peer ends although
    `is_over` does not hold for it; without another one, that holds for a peer that has announced its end or is known to be lost.
    `on_control` is called with the messages of a peer's runtime to this one's.
    """

    def __init__(self, role: Role, wiring: Wiring, listeners: Listeners, record: Recorder) -> None:
        self.on_failure: Callable[[BaseException], None] = _ignore
        self.on_connection_lost: Callable[[str, Exception | None], None] = _ignore
        self.on_control: Callable[[str, Message], None] = _ignore
        self.is_over: Callable[[str], bool] = self.has_ended
        self.steps = StepTracker()
        self.agreement = PendingAgreement()
        self.on_compare: Callable[[Comparison], None] = lambda comparison: None
        self.stop_point = StopPoint()
        self.origin = time.monotonic()
        self.loop = EventLoop()
        self._role = role
        self.device = role.device
        """The torch device of this actor."""
        self._record = record
        self._peers = Peers(self.loop, Credentials(role.name, role.secret), wiring, listeners, self)
        self.port = Port(role.name, role.seed, lambda: time.monotonic() - self.origin, self.record)
        """The actor's port, for messages to other actors."""
        self.actor = ActorExecutor(role.name, self.loop, self._peers, self._reduce, self.fail)
        self.queue = ProgramQueue(self.actor)
        self.sums = Sums(role.name, lambda: self.waits.problem)
        self.waits = ProgramWaits()
        """Their problem is what this node has failed with, or what interrupts its program until it enters the next view."""
        self.epoch = 0
        """The epoch of the newest view that this actor was notified of."""
        self._ended: set[str] = set()
        self._performed = 0
        self._begins = self._runs_here = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="polyrhythm", daemon=True)

    @property
    def failure(self) -> BaseException | None:
        """The error with which this node failed, if it has."""
        return self._failure

    @property
    def peers(self) -> Peers:
        """The connections with the other actors; only for the loop's thread."""
        return self._peers

    @property
    def reducers(self) -> Mapping[str, GroupReducer]:
        """Faster ways to sums than messages, by the name of the group."""
        return self.sums.reducers

    @reducers.setter
    def reducers(self, reducers: Mapping[str, GroupReducer]) -> None:  # only in the loop's thread, which may see a loss meanwhile
        self.sums.reducers = reducers

    def standstill(self) -> list[str]:
        """The waits of this actor's coroutines in words, if its program is in `perform` and they all wait for messages or a sum alone."""
        if self.steps.leaving:
            return [f"{self._role.name} waits for the others to end"]
        return self.actor.standstill(self.sums.waits or self.waits.awaited) if self.waits.any or self._runs_here else []

    @property
    def calls(self) -> bool:
        """True if the program waits in a call that is the user's, such as `worker.barrier()`."""
        return self.sums.awaits(CALL) or self.actor.awaits(CALL)

    @property
    def moved(self) -> int:
        """A number that changes whenever bytes come or go, a sum gets on, or the program performs something: that may send nothing."""
        return self._peers.moved + self.sums.moved + self._performed

    def agree(self, facts: Facts, remedy: str) -> str:
        """Block until the facts of all workers have come: the sentence on where they differ, or nothing."""
        request = partial(self.agreement.request, facts=facts, remedy=remedy)
        difference: str = self.wait_for("the facts of the others that must be equal", request)
        return difference

    def wait_for(self, what: str, begin: Callable[[Completion], None]) -> Any:
        """Block until the completion is finished that `begin` gets in the loop's thread: `what` is waited for, in words."""
        self.waits.awaited = [f"{self._role.name} waits for {what}"]
        try:
            return self.waits.wait(lambda completion: self.loop.call(lambda: begin(completion)))
        finally:
            self.waits.awaited = []

    def compare(self, comparison: Comparison) -> None:
        """Hand it to `on_compare`, in the loop's thread; waits for nobody."""
        self.loop.call(lambda: self.on_compare(comparison))

    def begin(self, coroutine: Coroutine[Effect[Any], Any, None]) -> None:
        """Have the loop run `coroutine` without waiting for it, before everything that is given to it from now on."""
        queue = self.queue  # before the problem is looked at: what interrupts afterwards closes this one
        if self.waits.problem is not None:
            coroutine.close()
            return
        self._begins = True
        queue.expect()
        self.loop.call(lambda: self._take(queue, QueuedCoroutine(coroutine)))

    def complete(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        """Block until the loop has run `coroutine` to its end; raises what it raised, or why this node failed."""
        # what needs no other thread is done in this one: handing over takes longer than a small sum
        self._performed += 1
        queue = self.queue
        if self.waits.problem is not None:
            coroutine.close()
            raise self.waits.problem
        pending: Effect[Any] | None = None
        if not self.actor.tasks and (not self._begins or queue.quiet):  # another coroutine would run at the same time, in the loop
            self._runs_here = True
            try:
                pending = self._run_here(coroutine)
            except StopIteration as stop:
                done: T = stop.value
                return done
            finally:
                self._runs_here = False

        def hand_over(completion: Completion) -> None:
            queued = QueuedCoroutine(coroutine, pending, completion)
            if not (serves_alike(self.device) and drive(self.loop, lambda: self._take(queue, queued), completion, self.fail)):
                self.loop.call(lambda: self._take(queue, queued))

        result: T = self.waits.wait(hand_over, coroutine.close)
        return result

    def start(self) -> None:
        """Start the loop's thread."""
        self._thread.start()

    def begin_run(self, table: dict[str, Address], origin: float) -> None:
        """Learn where everyone is, and when the run began (CLOCK_MONOTONIC); in the loop's thread."""
        self.origin = origin
        self._peers.set_addresses(table)

    def fail(self, error: BaseException) -> None:
        """End what is being performed, and all that will be, with `error`; in the loop's thread."""
        if self._failure is None:
            self._failure = error
            self.break_off(error)
            self.stop_point.fail(error)
            self.on_failure(error)

    def break_off(self, problem: BaseException) -> None:
        """End all waits of the program with `problem`; in the loop's thread."""
        self.waits.end(problem)
        self.sums.give_up()

    def lose(self, name: str) -> None:
        """Deliver to this actor's coroutines, under the topic "lost", that the actor `name` is lost and the run continues without it."""
        if name not in self._peers.lost:
            self._peers.lose(name)
            self.actor.deliver(Delivery(name, Message(epoch_scope(self.epoch) + "lost", text=name)))
            self._mark_gone(name, "was lost")

    def deliver(self, delivery: Delivery) -> None:
        """A message has come."""
        self.actor.deliver(delivery)

    def peer_ended(self, name: str) -> None:
        """The actor `name` has ended well, and nothing of it is on its way any more."""
        self._ended.add(name)
        self._mark_gone(name, "has ended")

    def receive_control(self, name: str, message: Message) -> None:
        """The runtime of the actor `name` has sent something to this one."""
        self.on_control(name, message)

    def connection_lost(self, name: str, why: Exception | None) -> None:
        """A connection with `name` has ended, which changes nothing where `name` has."""
        if not self.is_over(name):
            self.on_connection_lost(name, why)

    def has_ended(self, name: str) -> bool:
        """True if `name` is known to have ended or to be lost."""
        return name in self._ended or name in self._peers.lost

    def still_broken(self, name: str) -> None:
        """Fail, unless `name` has turned out to have ended since its connection did."""
        if not self.has_ended(name):
            self.fail(RunError(f"{name} closed its connection with {self._role.name}, although it is still running."))

    def finish(self, done: Callable[[], None]) -> None:
        """End the actor's coroutines, in the loop's thread, and announce that; `done` when the others have received all that it sent."""
        self.queue.close()
        self.actor.close()
        self._peers.announce_end(done)

    def stop(self, last: Callable[[], None] = lambda: None) -> None:
        """End the loop's thread, if it was started, close all connections, and call `last`; from another thread."""
        if self._thread.is_alive():
            self.loop.call(self._leave)
            self._thread.join()
        self._close()
        with ExitStack() as stack:  # in the order from below, and each even if one before it fails
            stack.callback(self.loop.close)
            stack.callback(last)
            stack.callback(self._peers.close)
            stack.callback(self.actor.close)
            stack.callback(self.queue.close)
            stack.callback(self.sums.stop)

    def _leave(self) -> None:
        """End the loop, and what a thread of the program still waits for: it may be the one that serves."""
        self._close()
        self.loop.stop()

    def _close(self) -> None:
        if self._failure is None:
            self._failure = RunError(f"{self._role.name} has left its run, so it cannot send to the others any more.")
        self.waits.end(self._failure)

    def record(self, event: AnyEvent) -> None:
        """Keep an event of this actor."""
        self.steps.note(event)
        self._record(event)

    def _mark_gone(self, name: str, how: str) -> None:
        self.actor.peer_gone(name, how)
        self.sums.peer_gone(name, how)

    def _run_here(self, coroutine: Coroutine[Effect[Any], Any, Any]) -> Effect[Any]:
        """Run `coroutine` in the program's thread up to the first effect that only the loop can carry out, which is returned.

        StopIteration comes out at its end.
        """
        result: Any = None
        try:
            while isinstance(effect := coroutine.send(result), NativeReduction):
                result = self.sums.here(effect)
            return effect
        except BaseException:
            coroutine.close()
            raise

    def _take(self, queue: ProgramQueue, item: QueuedCoroutine) -> None:
        if self.waits.problem is not None:
            item.coroutine.close()
        else:
            queue.take(item)

    def _reduce(self, effect: NativeReduction, done: Done) -> bool:
        return self.sums.start(effect, lambda value, error: self.loop.call(lambda: done(value, error)))

    def _serve(self) -> None:
        while True:
            try:
                return self.loop.run()
            except Exception as problem:  # it is reported, and the loop continues: coroutines that wait for it must be resumed
                self.fail(problem)


def _ignore(*given: object) -> None:
    return None
