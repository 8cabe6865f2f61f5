"""The channel from one actor to another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from polyrhythm.core.kernel.message import Delivery
from polyrhythm.core.simulator.actors import VirtualActor


@dataclass(slots=True, eq=False)
class FifoChannel:
    """The channel from one actor to another, and the messages on it, oldest first (None in the place of one that will be lost).

    `loses` draws whether the next message, under a topic, is lost; `crosses` is whether it leads to another site. `fates` are, of
    datagrams alone, the seconds by which each copy that arrives is late. A channel is its own token in the carrier, which keeps the order
    of each channel: every arrival is that of the oldest message, in whatever order simultaneous arrivals are handled.
    """

    sender: VirtualActor
    receiver: VirtualActor
    loses: Callable[[str], bool] | None
    crosses: bool = False
    fates: deque[tuple[float, ...]] | None = None
    line: deque[Delivery | None] = field(default_factory=deque)
    left: deque[tuple[float, int]] = field(default_factory=deque)
    """When each of `line` was sent, and its bytes, where that is recorded."""
    nbytes: int = 0
    messages: int = 0
    busy: float = 0.0
    since: float = 0.0
    """What it has carried, as of `Carried`; `since` when a message set out on the empty line."""
