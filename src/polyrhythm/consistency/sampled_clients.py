"""Rounds of local steps, each by a random part of the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from polyrhythm.consistency.bulk_synchronous import BulkSynchronous
from polyrhythm.consistency.local_steps import LocalSteps
from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.consistency import Conditions
from polyrhythm.core.protocols.traits import ConsistencyTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

_ROUNDS = 64
"""The number of rounds in the cache, which all workers of a simulated run share."""


@dataclass(frozen=True, slots=True)
@checked
class SampledClients:
    """Rounds of `tau` local steps by max(1, round(fraction P)) of P workers, drawn anew for each round (McMahan et al., 2017, alg. 1).

    The server merges the updates of a round when all of them have come. A worker that is not drawn computes and sends nothing in that
    round, and fetches the weights before the next round for which it is drawn. Clocks and batches are still counted: it skips the batches
    of that round. All workers and the server draw the same from the run's seed. With a fraction of 1 it is LocalSteps(tau).
    """

    fraction: float
    tau: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise CompositionError(f"SampledClients(fraction={self.fraction}) is no part of the workers: give more than 0 and at most 1.")
        LocalSteps(self.tau)

    @property
    def traits(self) -> ConsistencyTraits:
        """Updates of all drawn workers, merged together by a server; if all are drawn, the traits of LocalSteps."""
        rounds = LocalSteps(self.tau).traits
        if self.fraction == 1:
            return rounds
        return replace(rounds, payloads=frozenset({Payload.UPDATE}), requires=frozenset({Capability.SERVER}), chooses=True)

    @property
    def conditions(self) -> Conditions:
        """The conditions of BulkSynchronous, with an exchange at the end of a round; workers that were not drawn do not delay it."""
        return replace(
            BulkSynchronous.conditions,
            exchanges=lambda moment: moment.clock % self.tau == 0,
            takes_part=self._takes_part,
            quorum=self._count,
        )

    def _takes_part(self, clock: int, rank: int, group: Group) -> bool:
        return rank in _drawn(group.seed, (clock - 1) // self.tau, group.size, self._count(group.size))

    def _count(self, workers: int) -> int:
        """The number of workers that are drawn for a round."""
        return max(1, round(self.fraction * workers))


@lru_cache(_ROUNDS)
def _drawn(seed: int, number: int, workers: int, count: int) -> frozenset[int]:
    """The ranks that take part in round `number`, from 0."""
    return frozenset(rng.stream(seed, "clients", number).choice(workers, count, replace=False).tolist())


EXAMPLES = (SampledClients(0.5, 2),)
