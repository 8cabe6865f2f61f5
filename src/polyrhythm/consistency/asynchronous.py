"""Fully asynchronous: no worker waits for another.

The default of the rules that take another one as `then`, such as `Buffered` and `SoftSync`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.consistency import Conditions
from polyrhythm.core.protocols.traits import GRADIENTS, ConsistencyTraits, Payload


@dataclass(frozen=True, slots=True)
class Asynchronous:
    """Asynchronous SGD: every worker exchanges at every step and waits for no other worker's step.

    It waits only for the response of the server or worker that it asks; `Intervals` does not wait for that either.
    """

    traits: ClassVar = ConsistencyTraits(
        GRADIENTS | {Payload.NOTHING}, frozenset({Capability.ONE_SIDED}), order_matters=True, tolerates_loss=True
    )

    conditions: ClassVar = Conditions()
