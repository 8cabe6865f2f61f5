"""n-softsync: the server merges groups of P / n contributions, from any workers; no worker waits for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from polyrhythm.consistency.asynchronous import Asynchronous
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.consistency import Conditions, Consistency
from polyrhythm.core.protocols.traits import ConsistencyTraits
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
        return replace(then, requires=frozenset({Capability.SERVER}), order_matters=self.groups > 1 or then.order_matters)

    @property
    def conditions(self) -> Conditions:
        """The conditions of `then`, with groups of c = max(1, ⌊P / n⌋)."""
        return replace(self.then.conditions, quorum=lambda workers: max(1, workers // self.groups))


EXAMPLES = (SoftSync(1), SoftSync(2))
