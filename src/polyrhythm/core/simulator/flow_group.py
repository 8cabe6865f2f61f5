"""Many flows that share links, kept in arrays so that one start or end among a thousand costs little."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core.simulator.connection import Connection
from polyrhythm.core.simulator.filling import fill_many

FIRST_ROOM = 64


class FlowGroup:
    """Flows that share links with each other and with none outside; it may hold more than one such group, which is only slower.

    `remaining` is as of `since`. `end` is when its first flow ends; `generation` distinguishes an outdated `end` from the valid one.
    """

    __slots__ = ("changes", "end", "ends", "flows", "generation", "key", "paths", "rates", "remaining", "since")

    def __init__(self, key: int, now: float, places: int) -> None:
        self.key = key
        self.since = now
        self.end = math.inf
        self.generation = 0
        self.changes = 0
        self.flows: list[Connection] = []
        self.paths: NDArray[np.intp] = np.zeros((FIRST_ROOM, places), dtype=np.intp)
        self.remaining = np.zeros(FIRST_ROOM)
        self.rates = np.zeros(FIRST_ROOM)
        self.ends = np.full(FIRST_ROOM, math.inf)

    def settle(self, now: float) -> None:
        """Let the bytes flow until `now`."""
        if now > self.since:
            size = len(self.flows)
            self.remaining[:size] -= self.rates[:size] * (now - self.since)
            self.since = now

    def add(self, flow: Connection, now: float) -> None:
        """Take in `flow`, whose `remaining` is as of `now`."""
        self.settle(now)
        slot = len(self.flows)
        if slot == len(self.remaining):
            self._grow()
        self.flows.append(flow)
        self.remaining[slot] = flow.remaining
        self.rates[slot] = 0.0
        self.paths[slot] = 0
        for place, link in enumerate(flow.links):
            self.paths[slot, place] = link.index
            link.group = self
        flow.group = self
        flow.slot = slot

    def remove(self, flow: Connection, now: float) -> None:
        """Let `flow` go, with what remains of it."""
        self.settle(now)
        slot, last = flow.slot, len(self.flows) - 1
        flow.remaining = float(self.remaining[slot])
        flow.since = now
        flow.group = None
        moved = self.flows.pop()
        if slot != last:
            self.flows[slot] = moved
            moved.slot = slot
            for array in (self.remaining, self.rates):
                array[slot] = array[last]
            self.paths[slot] = self.paths[last]

    def restart(self, flow: Connection, nbytes: int, now: float) -> None:
        """The next message of the same connection, of `nbytes`, takes its place."""
        self.settle(now)
        self.remaining[flow.slot] = nbytes

    def solve(self, now: float, capacity: NDArray[np.float64]) -> None:
        """Set the rates, and from them all ends."""
        self.settle(now)
        size = len(self.flows)
        self.generation += 1
        self.changes += 1
        self.rates[:size] = fill_many(self.paths[:size], capacity)
        self.ends[:size] = now + self.remaining[:size] / self.rates[:size]
        self.end = float(self.ends[:size].min())

    def collect_ended(self, limit: float, ended: list[Connection]) -> None:
        """Add to `ended` the flows that end until `limit`."""
        ended.extend([self.flows[slot] for slot in np.flatnonzero(self.ends[: len(self.flows)] <= limit).tolist()])

    def disband(self, now: float) -> list[Connection]:
        """Let all flows go, with what remains of each."""
        self.settle(now)
        flows, self.flows = self.flows, []
        self.generation += 1
        for flow, remaining in zip(flows, self.remaining.tolist(), strict=False):  # the arrays have room to spare
            flow.remaining = remaining
            flow.rate = 0.0
            flow.since = now
            flow.group = None
            for link in flow.links:
                link.group = None
        return flows

    def _grow(self) -> None:
        self.paths = np.concatenate([self.paths, np.zeros_like(self.paths)])
        self.remaining = np.concatenate([self.remaining, np.zeros_like(self.remaining)])
        self.rates = np.concatenate([self.rates, np.zeros_like(self.rates)])
        self.ends = np.concatenate([self.ends, np.full_like(self.ends, math.inf)])
