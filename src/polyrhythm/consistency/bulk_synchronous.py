"""Bulk-synchronous parallel: all workers exchange at every step and wait for all.

The default of an `Exchange`; other consistencies wrap it or take its conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.consistency import Conditions
from polyrhythm.core.protocols.traits import GRADIENTS, ConsistencyTraits


@dataclass(frozen=True, slots=True)
class BulkSynchronous:
    """Every worker exchanges at every step and continues when all contributions have been merged (Valiant, 1990)."""

    traits: ClassVar = ConsistencyTraits(GRADIENTS, frozenset({Capability.WAITING}), order_matters=False, tolerates_loss=False)

    conditions: ClassVar = Conditions(
        quorum=lambda workers: workers,
        may_proceed=lambda mine, slowest: slowest >= mine,  # when step `mine` of all workers has been merged
        may_merge=lambda clock, mine: clock <= mine,  # steps that the worker has reached
    )
