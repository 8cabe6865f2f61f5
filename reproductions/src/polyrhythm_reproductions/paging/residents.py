"""The blocks that are in fast memory, and copies of the others outside of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError


class Residents:
    """At most `budget` bytes of blocks on `device`; the others are on the CPU. `peak` are the most bytes that were there at once.

    Blocks in `homes` have a place outside that holds their value; others are copied there when they leave. `copied` are the bytes that
    went in and out.
    """

    def __init__(self, budget: int, device: torch.device) -> None:
        self.budget = budget
        self.device = device
        self.there: OrderedDict[str, Tensor] = OrderedDict()
        self.homes: dict[str, Tensor] = {}
        self.away: dict[str, Tensor] = {}
        self.used, self.peak, self.copied = 0, 0, 0

    def get(self, block: str, held: Iterable[str]) -> Tensor:
        """The block, after making room at the expense of the least recently used that are not `held`."""
        if block in self.there:
            self.there.move_to_end(block)
            return self.there[block]
        value = self.homes[block] if block in self.homes else self.away.pop(block)
        self.make_room(value.nbytes, held, block)
        self.put(block, value.detach().to(self.device, copy=True))
        self.copied += value.nbytes
        return self.there[block]

    def known(self, block: str) -> bool:
        """True if it has a value, here or outside."""
        return block in self.there or block in self.away or block in self.homes

    def adopt(self, homes: Mapping[str, Tensor]) -> None:
        """The values of these blocks are in `homes`; copies that are here are of an earlier time."""
        for block in [each for each in self.there if each in self.homes]:
            self.used -= self.there.pop(block).nbytes
        self.homes = dict(homes)

    def put(self, block: str, value: Tensor) -> None:
        """Note a block that is in fast memory already, or was made there; there must be room."""
        self.there[block] = value
        self.used += value.nbytes
        self.peak = max(self.peak, self.used)

    def make_room(self, nbytes: int, held: Iterable[str], wanted: str) -> None:
        """Have so many bytes free. Raises CompositionError if the `held` leave too few."""
        kept = set(held)
        while self.used + nbytes > self.budget:
            victim = next((each for each in self.there if each not in kept), None)
            if victim is None:
                raise CompositionError(
                    f"A budget of {self.budget} bytes of fast memory is not enough: one operation needs {self.used + nbytes} or more, with "
                    f"{wanted}. Give more, or make batches smaller."
                )
            self.evict(victim)

    def evict(self, block: str) -> None:
        """Move a block out of fast memory; its value stays outside."""
        value = self.there.pop(block)
        self.used -= value.nbytes
        if block not in self.homes:
            self.away[block] = value.to("cpu", copy=True)
            self.copied += value.nbytes

    def free(self, block: str) -> None:
        """Drop a block whose value is not needed any more."""
        self.away.pop(block, None)
        if (value := self.there.pop(block, None)) is not None:
            self.used -= value.nbytes
