"""Connections that stop now and then to measure their latency, as `Bbr` says.

When a connection stops depends on when it last saw its least round trip. It sees one when it begins to send on a line where it has
nothing under way. Of n that it has seen the last is the least with probability 1/n, which is drawn, for each connection from a stream
of its own; so two connections that stop together at first seldom do later.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from heapq import heappop, heappush

from polyrhythm.hardware.congestion import Congestion
from polyrhythm.rng import derive
from polyrhythm.simulator.connection import Connection


@dataclass(slots=True)
class Clock:
    """When a connection last saw its least round trip, and which of its `sightings` since it stopped that was."""

    connection: Connection
    draw: random.Random
    least: float
    sightings: int = 1
    awaited: bool = False


class Pauses:
    """When each connection stops, and when it goes on. `due` is a heap of when connections are to be looked at, each entry's first."""

    def __init__(self, congestion: Congestion, seed: int) -> None:
        self._congestion = congestion
        self._seed = seed
        self._clocks: dict[int, Clock] = {}
        self.due: list[tuple[float, int, bool, int, Clock, Connection]] = []
        self._looks = 0

    def next_time(self) -> float:
        """When a connection that sends, or has stopped, is to be looked at next; math.inf if there is none."""
        while self.due and not (self.due[0][2] or self.due[0][4].connection.busy):
            heappop(self.due)[4].awaited = False
        return self.due[0][0] if self.due else math.inf

    def begin(self, connection: Connection, now: float) -> None:
        """A silent connection sends from now on."""
        if self._congestion.every == math.inf or not connection.links:
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
        clock.connection = connection
        if not clock.awaited:
            self._await(clock)

    def take(self) -> tuple[Connection, int]:
        """The connection that is due, and by how much the number of what holds it up changes."""
        now, _, stopped, _, clock, connection = heappop(self.due)
        if stopped:
            clock.least, clock.sightings = now, 1
            self._await(clock)
            return connection, -1
        connection = clock.connection
        if not connection.busy:
            clock.awaited = False
            return connection, 0
        if now < clock.least + self._congestion.every:
            self._await(clock)
            return connection, 0
        self._look(now + self._congestion.seconds + 2 * connection.latency, clock, stopped=True)
        return connection, 1

    def _await(self, clock: Clock) -> None:
        clock.awaited = True
        self._look(clock.least + self._congestion.every, clock, stopped=False)

    def _look(self, time: float, clock: Clock, stopped: bool) -> None:
        self._looks += 1
        heappush(self.due, (time, clock.connection.key, stopped, self._looks, clock, clock.connection))
