"""Rounds of local steps, each with some of the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from polyrhythm.consistency.local_steps import LocalSteps
from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import ConsistencyTraits, Pattern, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

_ROUNDS = 64
"""How many rounds are remembered: all workers of a simulated run ask who is in them."""


@dataclass(frozen=True, slots=True)
@checked
class SampledClients:
    """Rounds of `tau` local steps by max(1, round(fraction P)) of P workers, drawn anew for each round (McMahan et al., 2017, alg. 1).

    The server merges the updates of a round when all of them have come. Who is not drawn computes and sends nothing in that round, and
    fetches the weights before the next one for which it is. Clocks count on meanwhile, as do batches: what a worker would have used then is
    left out. All workers and the server draw the same from the run's seed. With a fraction of 1 it is LocalSteps(tau).
    """

    fraction: float
    tau: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise CompositionError(f"SampledClients(fraction={self.fraction}) is no part of the workers: give more than 0 and at most 1.")
        LocalSteps(self.tau)

    @property
    def traits(self) -> ConsistencyTraits:
        """Updates of all that are drawn, together, with a server; where it draws all, as LocalSteps."""
        rounds = LocalSteps(self.tau).traits
        if self.fraction == 1:
            return rounds
        return replace(rounds, payloads=frozenset({Payload.UPDATE}), patterns=frozenset({Pattern.SERVED}), chooses=True)

    def exchanges(self, context: ExchangeContext) -> bool:
        """At the end of a round."""
        return context.clock % self.tau == 0

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        """Who is drawn for the round of the step."""
        return rank in _drawn(group.seed, (clock - 1) // self.tau, group.size, self.quorum(group.size))

    def pushes(self, clock: int) -> bool:
        """Always."""
        return True

    def quorum(self, workers: int) -> int:
        """All that are drawn for a round."""
        return max(1, round(self.fraction * workers))

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """When the round is merged; who was not drawn for it does not hold it up."""
        return slowest >= mine

    def must_read(self, mine: int, known: float) -> bool:
        """Always."""
        return True

    def may_merge(self, clock: float, mine: float) -> bool:
        """Nothing of a round that I have not reached."""
        return clock <= mine


@lru_cache(_ROUNDS)
def _drawn(seed: int, number: int, workers: int, count: int) -> frozenset[int]:
    """The ranks of round `number`, from 0."""
    return frozenset(rng.stream(seed, "clients", number).choice(workers, count, replace=False).tolist())
