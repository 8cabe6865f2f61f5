"""A worker's blocking program as one of many in one process, of which one runs at a time: it yields in `perform`."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from copy import copy
from typing import Any, TypeVar

from torch import nn

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.crew_side import CrewSide, FixedCrew
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.serial_queue import SerialQueue
from polyrhythm.core.kernel.view import ViewChanged
from polyrhythm.core.simulator.actors import VirtualActor, VirtualTask
from polyrhythm.core.simulator.carriers import Carriers, Killed
from polyrhythm.core.simulator.rounds import Rounds
from polyrhythm.core.simulator.shared_state import SharedState
from polyrhythm.core.simulator.virtual_side import VirtualSide
from polyrhythm.errors import WorkloadError
from polyrhythm.hardware.devices import Machine

T = TypeVar("T")

_FORWARD = 1 / 3
"""The part of a measured step that is the forward pass; the backward pass has two products for each of its one."""


class Program:
    """A `WorkerContext`, and the carrier of its program. Where its steps were `measured`, no operations are counted."""

    __slots__ = (
        *("_ahead", "_carrier", "_count", "_killed", "_measured", "_randomness", "_shared", "actor", "aside", "charged"),
        *("crew", "ended", "foreseen", "interruption", "line", "parked", "port", "record", "rounds", "since", "started"),
    )

    def __init__(
        self,
        actor: VirtualActor,
        body: Callable[[WorkerContext], Message | None],
        shared: SharedState,
        machine: Machine,
        carriers: Carriers,
    ) -> None:
        self.actor = actor
        self.port: Port = actor.port
        self.record: Recorder = shared.record
        self.since = 0.0
        self.line: SerialQueue[VirtualTask] = SerialQueue()
        self.ended = False
        """True if the program has returned, has failed or was killed."""
        self.started: list[tuple[Coroutine[Effect[Any], Any, None], float]] = []
        self.interruption: ViewChanged | None = None
        """What the program is to raise the next time that it waits."""
        self._shared = shared
        self.rounds = shared.rounds.setdefault(0, Rounds())
        self.crew: CrewSide = FixedCrew() if shared.crew is None else VirtualSide(self, shared.crew, shared.rounds)
        self._measured = machine.measured
        self._carrier = carriers.carry(lambda: body(self), actor.name, machine)
        self._count = self._carrier.count
        self._randomness = copy(shared.drawing)
        self.charged = 0.0
        """The seconds that the program has computed and that the scheduler has not charged to its device."""
        self._ahead: tuple[float, float] | None = None
        """The seconds of the next step, and those of them that have passed, where its forward pass has had to wait."""
        self._killed = False
        self.parked, self.aside = False, 0
        """Whether it waits for gradients that are computed with those of others; whether it computes what is no training."""
        self.foreseen: float | None = None
        """The seconds of the step that it computes, where they were charged when its forward pass began; nothing is counted then."""

    @property
    def flops(self) -> int:
        """The operations counted since the last charge."""
        return self._count.flops

    @property
    def bytes_sent(self) -> int:
        """Bytes that all actors together have sent so far."""
        return self._shared.mailroom.post.bytes_sent

    @property
    def device(self) -> str:
        """Virtual workers compute on the CPU, one at a time."""
        return "cpu"

    def time(self) -> float:
        """The virtual seconds of the run, with what was computed since the scheduler last saw it."""
        return self.port.now() + self.charged + self._carrier.charging.look(self.actor.timing, self._count.flops)

    def perform(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        """Block the program until `coroutine` has ended; meanwhile others run."""
        try:
            self._shared.gradients.communicates(self)
            self._refuse()
            self.raise_interruption()
            result: T = self._carrier.wait(coroutine)
        except BaseException:
            coroutine.close()  # an interruption may have come before its first step
            raise
        return result

    def perform_steps(self, coroutine: Coroutine[Effect[Any], Any, None]) -> None:
        self.perform(self._recording(coroutine))

    async def _recording(self, coroutine: Coroutine[Effect[Any], Any, None]) -> None:
        self.since = math.inf  # the scheduler records no wait from there
        await coroutine

    def begin(self, coroutine: Coroutine[Effect[Any], Any, None], done: float) -> None:
        """Note that `coroutine` starts here, after the operations counted so far; it runs only once the program waits."""
        self._shared.gradients.communicates(self)
        if self._killed:
            coroutine.close()
        else:
            self.started.append((coroutine, _FORWARD + (1 - _FORWARD) * done if self._measured else self._count.flops))

    def charge(self, samples: int) -> None:
        """Let the virtual seconds of a step pass: those that were measured, or those of the operations counted since the last charge."""
        if self.foreseen is not None:
            seconds, self.foreseen = self.foreseen, None
            self._count.start()
            self._carrier.refuse()
            self.charged += seconds
            self._carrier.wait(None)
            return
        self._shared.gradients.charged(self, self._count.flops)
        flops = self._divide(self._count.take())
        if self._ahead is None:
            self._settle(self._carrier.charging.step(self.actor.timing, flops, samples))
        else:
            seconds, passed = self._ahead
            self._ahead = None
            left = seconds - passed
            self.started = [(coroutine, (seconds * part - passed) / left) for coroutine, part in self.started]
            self._settle(left)

    def discard(self) -> None:
        """Do not charge what was counted since the last charge."""
        self._count.take()

    def reach(self, done: float) -> None:
        """Let the seconds of a part of the forward pass pass, where steps were measured: counted operations are charged when they are."""
        if self._measured:
            seconds, passed = self._ahead or (self.actor.timing.step_seconds(0, 0), 0.0)
            reached = max(passed, seconds * _FORWARD * done)
            self._ahead = (seconds, reached)
            self._settle(reached - passed)

    def charge_merge(self, others: int) -> None:
        """Let the virtual seconds of merging pass, where they were measured."""
        self._settle(self.actor.timing.merge_seconds(others))

    def free(self, compute: Callable[[], T]) -> T:
        """Call `compute`, and do not count its operations."""
        self.aside += 1
        try:
            return self._count.free(compute)
        finally:
            self.aside -= 1

    def follow(self, model: nn.Module, alone: str) -> None:
        self._shared.gradients.follow(self, model, alone)

    @property
    def can_wait(self) -> bool:
        """True if it may wait here for gradients."""
        try:
            self._carrier.refuse()
        except WorkloadError:
            return False
        return self._killed is False

    def foresee(self, flops: int) -> float:
        """Charge the step that is under way, which takes `flops` operations more; nothing is counted until it ends. Returns its seconds."""
        self.foreseen = self.actor.timing.step_seconds(self._count.stop() + flops, 0)
        return self.foreseen

    def park(self) -> Any:
        """Wait, in no virtual time; returns what the program is continued with."""
        self.parked = True
        try:
            return self._carrier.wait(None)
        finally:
            self.parked = False

    def write(self, deed: Callable[[], T]) -> T:
        """Call `deed` freely; a fault of the disk takes its seconds afterwards, and one that kills the writer comes before it continues."""
        result = self.free(deed)
        seconds = self._shared.written(self.actor.name)
        if seconds is not None:
            self.perform(_pause(self.port, seconds))
        return result

    def uncounted(self, compute: Callable[[], T]) -> T:
        """Call `compute` without counting, which makes torch fast again."""
        return self._count.uncounted(compute)

    def counted(self, compute: Callable[[], T]) -> T:
        return self._count.counted(compute)

    def native(self, group: Group) -> bool:
        """Always False: messages take the time that they would take."""
        return False

    def agree(self, facts: Facts, remedy: str) -> None:
        self.rounds.agree(self.actor.name, facts, remedy)

    def align(self, alignment: Alignment) -> Message | None:
        return self.rounds.align(self.actor.name, alignment)

    def compare(self, comparison: Comparison) -> None:
        self.rounds.compare(self.actor.name, comparison)

    def stopped(self, steps: int) -> None:
        """Note that no step follows."""
        self._shared.stopped[self.actor.name] = steps

    def last_step(self, clock: int) -> int | None:
        """The step after which the run stops, if it was asked to: one step beyond the worker that is furthest."""
        return self._shared.stop.last_step(self.actor.name, clock)

    def stop(self, kept: bool) -> None:
        """Raise what ends the run."""
        self._shared.stop.stop(kept)

    def run(self, value: Any, error: BaseException | None = None) -> Any:
        """Resume the program until it performs a coroutine, which is returned, or charges, or returns; raises what it raises.

        A charge is returned as None: it is not a coroutine, because it must not wait for what was started.
        """
        self._load()
        if self.foreseen is None:
            self._count.start()
        try:
            return self._carrier.run(value, error)
        finally:
            if self.foreseen is None:
                self.charged += self._carrier.charging.take(self.actor.timing, self._divide(self._count.stop()))
            self.ended = self._carrier.ended

    def take_started(self) -> list[tuple[Coroutine[Effect[Any], Any, None], float]]:
        """The coroutines that the program has started since the last call, each with the part of the computing that came before it."""
        started, self.started = self.started, []
        return started

    def kill(self) -> None:
        """End the program where it is; its `finally` blocks run, and what they raise is ignored."""
        self._killed = True
        if not self.ended:
            with suppress(Exception):
                self.run(None, Killed())
        for coroutine, _ in self.take_started():
            coroutine.close()

    def raise_interruption(self) -> None:
        """Raise ViewChanged if the crew has changed since the program waited last."""
        if self.interruption is not None:
            interruption, self.interruption = self.interruption, None
            raise interruption

    def _settle(self, seconds: float) -> None:
        """Yield until `seconds` have passed; return at once where there is nothing to charge, because every switch costs real time."""
        if seconds > 0 or self.started:
            self._refuse()
            self.charged += seconds
            self._carrier.wait(None)

    def _divide(self, flops: int) -> int:
        """Return `flops`, and turn the counts at which coroutines were started into parts of it."""
        if flops and self.started:
            self.started = [(coroutine, counted / flops) for coroutine, counted in self.started]
        return flops

    def _refuse(self) -> None:
        if self._killed:
            raise Killed
        self._carrier.refuse()

    def _load(self) -> None:
        """Put the program's own state on the thread; random states only if another program has run since."""
        mine, drawing = self._randomness, self._shared.drawing
        if mine is not drawing and mine is not None and drawing is not None:
            drawing.save()
            mine.load(drawing)
            self._shared.drawing = mine


async def _pause(port: Port, seconds: float) -> None:
    await port.sleep(seconds)
