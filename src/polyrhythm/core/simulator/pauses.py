"""Connections that pause now and then to measure their latency, as `Bbr` describes.

When a connection pauses depends on when it last measured its least round trip. It measures one when it begins to send and all before has
left it. Of n measurements the last is the least with probability 1/n, which is drawn from a separate stream for each connection; so two
connections that pause together at first seldom do later.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from heapq import heappop, heappush

from polyrhythm.core.rng import derive
from polyrhythm.core.simulator.connection import Connection
from polyrhythm.hardware.congestion import Congestion


@dataclass(slots=True)
class Clock:
    """The clock of `connection`: when it last measured its `least` round trip, and how many it has measured since its last pause.

    `awaited`: a check is scheduled. `gone`: the connection does not exist any more.
    """

    connection: Connection
    draw: random.Random
    least: float
    sightings: int = 1
    awaited: bool = False
    gone: bool = False

    @property
    def sends(self) -> bool:
        """True if bytes of the connection flow."""
        return self.connection.busy and not self.connection.cuts


@dataclass(slots=True, order=True)
class PauseCheck:
    """A check of a connection at `time`, simultaneous ones in the order of their keys; `stopped`: because its pause ends then."""

    time: float
    key: int
    number: int
    stopped: bool
    clock: Clock

    @property
    def idle(self) -> bool:
        """True if there is nothing to check."""
        return self.clock.gone or not (self.stopped or self.clock.sends)


class Pauses:
    """The times at which each connection pauses and resumes."""

    def __init__(self, congestion: Congestion, seed: int) -> None:
        self._congestion = congestion
        self._seed = seed
        self._clocks: dict[int, Clock] = {}
        self._looks = 0
        self._due: list[PauseCheck] = []

    def next_time(self) -> float:
        """The time at which a connection that sends or pauses is to be checked next; math.inf if there is none."""
        while self._due and self._due[0].idle:
            heappop(self._due).clock.awaited = False
        return self._due[0].time if self._due else math.inf

    def begin(self, connection: Connection, now: float) -> None:
        """A connection begins to send."""
        if not connection.links:
            return
        clock = self._clocks.get(connection.key)
        if clock is None:
            draw = random.Random(derive(self._seed, "pauses", connection.sender.name, connection.receiver.name))
            clock = self._clocks[connection.key] = Clock(connection, draw, now)
        elif now >= clock.least + self._congestion.every:
            clock.least, clock.sightings = now, 1
        else:
            clock.sightings += 1
            if clock.draw.random() * clock.sightings < 1:
                clock.least = now
        if not clock.awaited:
            self._await(clock)

    def take(self) -> tuple[Connection, int]:
        """The connection of `next_time`, and the change in the number of its pauses: 1, 0 or -1."""
        look = heappop(self._due)
        clock = look.clock
        if look.stopped:
            clock.least, clock.sightings = look.time, 1
            self._await(clock)
            return clock.connection, -1
        if look.time < clock.least + self._congestion.every:
            self._await(clock)
            return clock.connection, 0
        self._look(look.time + self._congestion.seconds + clock.connection.round_trip, clock, stopped=True)
        return clock.connection, 1

    def drop(self, connection: Connection) -> None:
        """Forget the connection; a new one of the same actors gets a new clock."""
        clock = self._clocks.pop(connection.key, None)
        if clock is not None:
            clock.gone = True

    def _await(self, clock: Clock) -> None:
        clock.awaited = True
        self._look(clock.least + self._congestion.every, clock, stopped=False)

    def _look(self, time: float, clock: Clock, stopped: bool) -> None:
        self._looks += 1
        heappush(self._due, PauseCheck(time, clock.connection.key, self._looks, stopped, clock))
