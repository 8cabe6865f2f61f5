"""The server waits for a number of contributions, from whichever workers; no worker waits for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from polyrhythm.consistency.asynchronous import Asynchronous
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import ConsistencyTraits, Pattern
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Buffered:
    """Merge `size` contributions at a time, and at most as many as there are workers (FedBuff; Nguyen et al., AISTATS 2022, alg. 1).

    As SoftSync, which counts groups of a round where this counts contributions. Under Asynchronous a worker goes on at once, from weights
    in which its own contribution may not be yet; with as many as there are workers and BulkSynchronous, rounds are synchronous.
    """

    size: int
    then: Consistency = field(default_factory=Asynchronous)

    def __post_init__(self) -> None:
        if not self.size >= 1:
            raise CompositionError(f"Buffered(size={self.size}) would never merge: give 1 contribution (each by itself) or more.")

    @property
    def traits(self) -> ConsistencyTraits:
        """As the waiting rule's, with a server; which contributions are merged together depends on their arrival."""
        return replace(self.then.traits, patterns=frozenset({Pattern.SERVED}), order_matters=True)

    def exchanges(self, context: ExchangeContext) -> bool:
        """As the waiting rule."""
        return self.then.exchanges(context)

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        """As the waiting rule."""
        return self.then.takes_part(clock, rank, group)

    def pushes(self, clock: int) -> bool:
        """As the waiting rule."""
        return self.then.pushes(clock)

    def quorum(self, workers: int) -> int:
        """The buffer."""
        return min(self.size, workers)

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """As the waiting rule."""
        return self.then.may_proceed(mine, slowest)

    def must_read(self, mine: int, known: float) -> bool:
        """As the waiting rule."""
        return self.then.must_read(mine, known)

    def may_merge(self, clock: float, mine: float) -> bool:
        """As the waiting rule."""
        return self.then.may_merge(clock, mine)
