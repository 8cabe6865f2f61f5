"""Draws which messages and datagrams are lost, from a stream for each connection: the same of the same messages in both runtimes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from polyrhythm.core.streams import stream
from polyrhythm.hardware.faults.fault import Fault, Loss, begins
from polyrhythm.hardware.faults.lines import DatagramFaults, Drop

Names = tuple[str, ...]
"""The names of an actor: its own, those of its host and its site."""


class Losses:
    """The losses that `faults` cause on connections; `clock` is that of the run, `lost` is called for each lost message.

    A fault that waits for a step begins with `begin`.
    """

    def __init__(self, faults: Sequence[Fault], seed: int, clock: Callable[[], float], lost: Callable[[str, str, str], None]) -> None:
        self.drops = [fault for fault in faults if isinstance(fault, Drop)]
        self.datagrams = [fault for fault in faults if isinstance(fault, DatagramFaults)]
        self._seed = seed
        self._clock = clock
        self._lost = lost
        begun: list[Loss] = [*self.drops, *self.datagrams]
        self._since = {id(fault): math.inf if (at := begins(fault)) is None else at for fault in begun}

    def begin(self, fault: Loss) -> None:
        """The step has come for which `fault`, one of those given, has waited."""
        self._since[id(fault)] = self._clock()

    def of_messages(self, sender: str, receiver: str, here: Names, there: Names) -> Callable[[str], bool] | None:
        """A function that draws whether the next message from `sender` to `receiver`, under a topic, is lost; None where none can be."""
        drops = [
            (drop, stream(self._seed, "drop", place, sender, receiver))
            for place, drop in enumerate(self.drops)
            if drop.between is None or _are_between(here, there, *drop.between)
        ]
        if not drops:
            return None

        def loses(topic: str) -> bool:
            lost = [drop for drop, draws in drops if self._lasts(drop) and draws.random() < drop.probability]
            if lost:
                self._lost(sender, receiver, topic)
            return bool(lost)

        return loses

    def of_datagrams(self, sender: str, receiver: str, here: Names, there: Names, loss: float) -> Callable[[str], tuple[float, ...]]:
        """A function that draws by how many seconds each copy of the next datagram under a topic is late, of those that arrive.

        `loss` is the probability with which the network itself loses one.
        """
        faults = [fault for fault in self.datagrams if fault.between is None or _are_between(here, there, *fault.between)]
        draw = stream(self._seed, "datagrams", sender, receiver)

        def fate(topic: str) -> tuple[float, ...]:
            copies = [0.0]
            lost = draw.random() < loss
            for fault in faults:
                draws = draw.random(3)
                if not (self._lasts(fault) and topic.endswith(fault.topic)):
                    continue
                lost = lost or bool(draws[0] < fault.loss)
                if draws[1] < fault.duplicated:
                    copies.append(fault.delay)
                if draws[2] < fault.late:
                    copies[0] += fault.delay
            return () if lost else tuple(copies)

        return fate

    def _lasts(self, fault: Loss) -> bool:
        since = self._since[id(fault)]
        return since <= self._clock() < since + fault.duration


def _are_between(here: Names, there: Names, a: str, b: str) -> bool:
    return (a in here and b in there) or (b in here and a in there)
