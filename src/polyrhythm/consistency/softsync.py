"""n-softsync: the server merges groups of P / n contributions, from any workers; no worker waits for it."""

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
class SoftSync:
    """Merge groups of c = max(1, ⌊P / groups⌋) contributions, from whichever workers (Rudra; Gupta, Zhang, Wang, 2016).

    `groups` is the n of n-softsync, not the number of gradients in a group; the mean staleness is about n. Under Asynchronous (the
    paper's rule) workers read at once; `then` may set another rule for waiting: SoftSync(1, Bounded(0)) is synchronous.
    """

    groups: int = 1
    then: Consistency = field(default_factory=Asynchronous)

    def __post_init__(self) -> None:
        if not self.groups >= 1:
            raise CompositionError(f"SoftSync(groups={self.groups}) has no group to merge: give 1 (all workers in one group) or more.")

    @property
    def traits(self) -> ConsistencyTraits:
        """The traits of `then`, with a server, where groups are counted; which contributions are in a group depends on their arrival."""
        then = self.then.traits
        return replace(then, patterns=frozenset({Pattern.SERVED}), order_matters=self.groups > 1 or then.order_matters)

    def exchanges(self, context: ExchangeContext) -> bool:
        return self.then.exchanges(context)

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        return self.then.takes_part(clock, rank, group)

    def pushes(self, clock: int) -> bool:
        return self.then.pushes(clock)

    def quorum(self, workers: int) -> int:
        """The size of a group, c = max(1, ⌊P / n⌋)."""
        return max(1, workers // self.groups)

    def may_proceed(self, mine: int, slowest: float) -> bool:
        return self.then.may_proceed(mine, slowest)

    def must_read(self, mine: int, known: float) -> bool:
        return self.then.must_read(mine, known)

    def may_merge(self, clock: float, mine: float) -> bool:
        return self.then.may_merge(clock, mine)
