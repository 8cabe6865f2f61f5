"""What a machine has besides its speed: memory, power, price, interruptions, and hours in which it is away or slow."""

from __future__ import annotations

import math

import msgspec

from polyrhythm.errors import CompositionError
from polyrhythm.hardware.hours import Hours
from polyrhythm.hardware.price_hours import PriceHours, refuse_overlapping


class MachineTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The bytes of `memory` that a worker may use, `watts`, the price of a `worker_hour`, and `interruptions` an hour with `notice`.

    What is None is not known, and is then as the plan has it for all machines. `notice` are the seconds between the word that a machine
    will be taken away and its end. In the `hours` it is away, or slow; `prices` are other prices of a worker hour at some hours of the day.
    """

    memory: float = math.inf
    watts: float | None = None
    worker_hour: float | None = None
    interruptions: float | None = None
    notice: float = 0.0
    hours: tuple[Hours, ...] = ()
    prices: tuple[PriceHours, ...] = ()

    def __post_init__(self) -> None:
        named = {"watts": self.watts, "worker_hour": self.worker_hour, "interruptions": self.interruptions, "notice": self.notice}
        for name, value in named.items():
            if value is not None and not 0 <= value < math.inf:
                raise CompositionError(f"A machine with {name}={value} cannot be: give 0 or more, or leave it out.")
        refuse_overlapping(self.prices)
        if not self.memory > 0:
            raise CompositionError(f"A machine with a memory of {self.memory} bytes holds no model: give more than 0, or leave it out.")


PLAIN = MachineTerms()
"""Those of a machine of which nothing else is known."""
