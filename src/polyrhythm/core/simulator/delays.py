"""Latencies that vary: the arrival times of messages on a network with jitter.

Each connection draws from a separate stream. As on a TCP connection, and in the lab, messages of one connection do not overtake each
other: one that drew a short delay arrives with the one before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from polyrhythm.core.rng import derive
from polyrhythm.core.simulator.connection import Connection
from polyrhythm.hardware.network import Network


@dataclass(slots=True)
class _Line:
    """A connection's random stream, by how much its latency may differ, and when its last message arrives."""

    draw: random.Random
    jitter: float
    last: float = 0.0


class Delays:
    """The arrival times of messages on `network`, whose latencies vary uniformly by up to their jitter."""

    def __init__(self, network: Network, seed: int) -> None:
        self._network = network
        self._seed = seed
        self._lines: dict[int, _Line] = {}

    def arrival(self, connection: Connection, now: float) -> float:
        """The time at which a message arrives whose last byte leaves at `now`; to be called once for each, in order."""
        if not connection.links:  # inside one host
            return now + connection.latency
        line = self._lines.get(connection.key)
        if line is None:
            here, there = connection.sender, connection.receiver
            draw = random.Random(derive(self._seed, "jitter", here.name, there.name))
            line = self._lines[connection.key] = _Line(draw, self._network.site_jitter(here.site, there.site))
        line.last = max(line.last, now + connection.latency + line.draw.uniform(-line.jitter, line.jitter))
        return line.last
