"""Buffered merging: the server merges every so many contributions, from any workers; no worker waits for it."""

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
        return replace(self.then.traits, requires=frozenset({Capability.SERVER}), order_matters=True)

    @property
    def conditions(self) -> Conditions:
        """The conditions of `then`, with groups of `size`."""
        return replace(self.then.conditions, quorum=lambda workers: min(self.size, workers))


EXAMPLES = (Buffered(2),)
