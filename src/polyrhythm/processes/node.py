"""One actor in its process: the loop in a thread of its own, and the program that hands coroutines over to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from polyrhythm.errors import DeadlockError, RunError
from polyrhythm.kernel.effects import Effect, Reduce
from polyrhythm.kernel.events import Computed, Recorder, Waited
from polyrhythm.kernel.message import Delivery, Message
from polyrhythm.kernel.port import Port, rank_of
from polyrhythm.processes.actor import Actor
from polyrhythm.processes.addresses import Address, Listeners
from polyrhythm.processes.collective import Collective
from polyrhythm.processes.handshake import Identity
from polyrhythm.processes.links import Wiring
from polyrhythm.processes.loop import Loop
from polyrhythm.processes.peers import Peers

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Role:
    """What an actor is in its run: its name, the run's secret and seed, its device."""

    name: str
    secret: bytes
    seed: int = 0
    device: str = "cpu"


class Ticket:
    """What a program holds while its coroutine runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: Any = None
        self._error: BaseException | None = None

    def finish(self, value: Any, error: BaseException | None) -> None:
        """Let the program go on; the first call counts."""
        if self._lock.locked():
            self._value, self._error = value, error
            self._lock.release()

    def wait(self) -> Any:
        """The coroutine's result, or its error raised. Signals are served while waiting."""
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return self._value


class Node:
    """A `kernel.job.Stage` over real connections.

    `on_failure` is called once, in the loop's thread, when something failed outside of `perform`: a spawned coroutine, a
    peer, the loop. From then on `perform` raises that error. `on_break` is called when a peer is gone without a good-bye.
    """

    def __init__(self, role: Role, wiring: Wiring, listeners: Listeners, record: Recorder) -> None:
        self.on_failure: Callable[[BaseException], None] = _nothing
        self.on_break: Callable[[str, Exception | None], None] = _nothing_breaks
        self.collective: Collective | None = None
        self.origin = time.monotonic()
        self.loop = Loop()
        self._role = role
        self._record = record
        self._peers = Peers(self.loop, Identity(role.name, role.secret), wiring, listeners, self)
        self._port = Port(role.name, role.seed, lambda: time.monotonic() - self.origin)
        self.actor = Actor(role.name, self.loop, self._peers, self._reduce, self.fail)
        self._parted: set[str] = set()
        self._tickets: dict[Ticket, None] = {}
        self._failure: BaseException | None = None
        self._returned = 0.0
        self._summing = ""
        self._thread = threading.Thread(target=self._serve, name="polyrhythm", daemon=True)

    @property
    def port(self) -> Port:
        """The actor's door to the others."""
        return self._port

    @property
    def record(self) -> Recorder:
        """Where events go."""
        return self._record

    @property
    def bytes_sent(self) -> int:
        """Bytes that this actor has sent so far."""
        return self._peers.bytes_sent

    @property
    def device(self) -> str:
        """The torch device of this actor."""
        return self._role.device

    @property
    def failure(self) -> BaseException | None:
        """Why this node failed, if it has."""
        return self._failure

    @property
    def peers(self) -> Peers:
        """The connections with the other actors; only for the loop's thread."""
        return self._peers

    def standstill(self) -> list[str]:
        """What this actor's coroutines wait for, if its program is in `perform` and they all wait for messages alone."""
        if self._summing:
            return [f"{self._role.name} waits for the others in the sum {self._summing!r}"]
        return self.actor.standstill() if self._tickets else []

    def charge(self, samples: int) -> None:
        """Nothing: real time has passed."""

    def perform(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        """As `complete`, for a program: what it did since the last time is recorded as computing, and this as waiting.

        What it did before the first time is not: it loaded its data and built its model.
        """
        began = self._port.now()
        if self._returned:
            self._record(Computed(began, self._role.name, began - self._returned))
        try:
            return self.complete(coroutine)
        finally:
            self._returned = self._port.now()
            self._record(Waited(self._returned, self._role.name, self._returned - began))

    def complete(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        """Block until the loop has run `coroutine` to its end; raises what it raised, or why this node failed."""
        # what needs no other thread is done in this one: handing over takes longer than a small sum
        ticket = Ticket()
        # entered before the failure is looked at: one that comes in between ends the ticket
        self._tickets[ticket] = None
        try:
            if self._failure is not None:
                coroutine.close()
                raise self._failure
            asked: Effect[Any] | None = None
            if self.actor.idle:  # another coroutine of this actor would run at the same time, in the loop's thread
                try:
                    asked = self._run_here(coroutine)
                except StopIteration as stop:
                    done: T = stop.value
                    return done
            self.loop.call(lambda: self._begin(coroutine, asked, ticket))
            result: T = ticket.wait()
            return result
        finally:
            del self._tickets[ticket]

    def start(self) -> None:
        """Start the loop's thread."""
        self._thread.start()

    def know(self, table: dict[str, Address], origin: float) -> None:
        """Learn where everyone is, and when the run began (CLOCK_MONOTONIC); in the loop's thread."""
        self.origin = origin
        self._peers.know(table)

    def fail(self, error: BaseException) -> None:
        """End what is being performed, and all that will be, with `error`; in the loop's thread."""
        if self._failure is None:
            self._failure = error
            for ticket in list(self._tickets):
                ticket.finish(None, error)
            if self.collective is not None:
                self.collective.give_up()
            self.on_failure(error)

    def lose(self, name: str) -> None:
        """An actor without which the run goes on is no more: tell this one's coroutines under the topic "lost"."""
        if name not in self._peers.lost:
            self._peers.lose(name)
            self.actor.deliver(Delivery(name, Message("lost", text=name)))
            self._say_gone(name, "was lost")

    def deliver(self, delivery: Delivery) -> None:
        """A message has come."""
        self.actor.deliver(delivery)

    def part(self, name: str) -> None:
        """The actor `name` has ended well, and nothing of it is on its way any more."""
        self._parted.add(name)
        self._say_gone(name, "has ended")

    def break_off(self, name: str, why: Exception | None) -> None:
        """A connection with `name` is over, which is news only if it had not said so."""
        if not self.knows_end(name):
            self.on_break(name, why)

    def knows_end(self, name: str) -> bool:
        """Whether `name` is known to have ended or to be lost."""
        return name in self._parted or name in self._peers.lost

    def still_broken(self, name: str) -> None:
        """Fail, unless `name` has turned out to have ended since its connection did."""
        if not self.knows_end(name):
            self.fail(RunError(f"{name} broke off its connection with {self._role.name}, and yet it has not ended."))

    def finish(self, done: Callable[[], None]) -> None:
        """End the actor's coroutines and say good-bye; `done` when all it sent has been taken in. In the loop's thread."""
        self.actor.close()
        self._peers.farewell(done)

    def stop(self, last: Callable[[], None] = lambda: None) -> None:
        """End the loop's thread, if it was started, close all connections, and call `last`; from another thread."""
        if self._thread.is_alive():
            self.loop.call(self.loop.stop)
            self._thread.join()
        if self._failure is None:
            self._failure = RunError(f"{self._role.name} has left its run: nothing can be said to the others any more.")
        with ExitStack() as stack:  # in the order from below, and each even if one before it fails
            stack.callback(self.loop.close)
            stack.callback(last)
            stack.callback(self._peers.close)
            stack.callback(self.actor.close)

    def _say_gone(self, name: str, how: str) -> None:
        self.actor.part(name, how)
        if self.collective is not None and name.startswith("worker/"):
            self.collective.part(rank_of(name), how)

    def _run_here(self, coroutine: Coroutine[Effect[Any], Any, Any]) -> Effect[Any]:
        """Run `coroutine` in the program's thread up to the first effect that only the loop can answer, which is returned.

        StopIteration comes out at its end.
        """
        answer: Any = None
        try:
            while isinstance(effect := coroutine.send(answer), Reduce):
                answer = self._reduce(effect)
            return effect
        except BaseException:
            coroutine.close()
            raise

    def _begin(self, coroutine: Coroutine[Effect[Any], Any, Any], asked: Effect[Any] | None, ticket: Ticket) -> None:
        if self._failure is not None:
            coroutine.close()
        else:
            self.actor.start("program", coroutine, ticket.finish, asked)

    def _reduce(self, effect: Reduce) -> Tensor | None:
        if self.collective is None:
            return None
        self._summing = effect.topic
        try:
            return self.collective.reduce(effect)
        except ConnectionAbortedError as problem:
            raise self._failure or DeadlockError(
                f"{self._role.name} waits for the others in the sum {effect.topic!r}: {problem}."
            ) from None
        finally:
            self._summing = ""

    def _serve(self) -> None:
        while True:
            try:
                return self.loop.run()
            except Exception as problem:  # told, and then served on: whoever waits for the loop must get an answer
                self.fail(problem)


def _nothing(error: BaseException) -> None:
    return None


def _nothing_breaks(name: str, why: Exception | None) -> None:
    return None
