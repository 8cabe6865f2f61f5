"""The injected faults that may keep a run from continuing: lost messages and cut lines, for the text of a deadlock."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from polyrhythm.core.kernel.waiting import awaited
from polyrhythm.hardware.faults import Disconnect


@dataclass(slots=True)
class FaultLog:
    """Written by `FaultInjection`, read by `deadlock`: how many messages were `lost`, the `first` of them, and lines that stay cut."""

    lost: int = 0
    first: str = ""
    cuts: list[str] = field(default_factory=list)

    def lose(self, sender: str, receiver: str, topic: str, now: float) -> None:
        """A message under `topic` was lost on its way."""
        self.lost += 1
        self.first = self.first or f"{awaited(topic, sender)} to {receiver} at {now:.9g} s"

    def cut(self, fault: Disconnect, now: float) -> None:
        """The line of `fault` is cut from now on, for as long as it says."""
        if fault.duration == math.inf:
            self.cuts.append(f"{fault.a} has been cut off from {fault.b} since {now:.9g} s")

    @property
    def cause(self) -> str:
        """The injected faults because of which messages do not arrive, in words; empty where there are none."""
        causes = list(self.cuts)
        if self.lost:
            more = "" if self.lost == 1 else f", and {self.lost - 1} more"
            causes.append(f"a message was lost, and nobody sends it again: {self.first}{more}")
        return "; ".join(causes)
