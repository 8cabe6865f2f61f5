"""Buffered merging: the server merges every so many contributions, from any workers; no worker waits for it."""

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

    SoftSync instead sets the number of such groups in a round. Under Asynchronous a worker continues at once, from weights
    that may not include its own contribution yet. With `size` P and BulkSynchronous, rounds are synchronous.
    """

    size: int
    then: Consistency = field(default_factory=Asynchronous)

    def __post_init__(self) -> None:
        if not self.size >= 1:
            raise CompositionError(f"Buffered(size={self.size}) would never merge: give 1 contribution (each by itself) or more.")

    @property
    def traits(self) -> ConsistencyTraits:
        """The traits of `then`, with a server; the order of arrival decides which contributions are merged together."""
        return replace(self.then.traits, patterns=frozenset({Pattern.SERVED}), order_matters=True)

    def exchanges(self, context: ExchangeContext) -> bool:
        return self.then.exchanges(context)

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        return self.then.takes_part(clock, rank, group)

    def pushes(self, clock: int) -> bool:
        return self.then.pushes(clock)

    def quorum(self, workers: int) -> int:
        return min(self.size, workers)

    def may_proceed(self, mine: int, slowest: float) -> bool:
        return self.then.may_proceed(mine, slowest)

    def must_read(self, mine: int, known: float) -> bool:
        return self.then.must_read(mine, known)

    def may_merge(self, clock: float, mine: float) -> bool:
        return self.then.may_merge(clock, mine)
