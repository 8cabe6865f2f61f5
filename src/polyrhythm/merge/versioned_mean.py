"""The mean of each clock's updates, revised as late ones come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import MergeTraits, Payload
from polyrhythm.core.tensors import State
from polyrhythm.merge.total import count, total


@dataclass(frozen=True, slots=True)
class VersionedMean:
    """The d-th update of a clock counts 1 / d, and the earlier ones are scaled down to that (DynSGD; Jiang et al., SIGMOD 2017).

    For each clock v a server keeps the mean ū_v of the d_v updates that have come: one more, u, makes d_v ← d_v + 1,
    Δ = (u - ū_v) / d_v, ū_v ← ū_v + Δ, w ← w + Δ. So the weights are the initial ones plus the mean of every clock's updates, in
    whatever order these come: a fast worker's update counts in full until others come, and a straggler's moves the weights little.
    A clock that every worker has passed is forgotten. A clock here is the sender's step, which the paper leaves open; of each the sum is
    kept in place of the mean, so that updates of all that come at once make the mean to the bit. A sum that has no clock is averaged.
    """

    traits: ClassVar = MergeTraits(frozenset({Payload.UPDATE}), frozenset({Capability.VERSIONS}), averages=True)
    rule: ClassVar[None] = None

    def scale(self, step: int, workers: int) -> float:
        return 1.0

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The sum of all Δ, with the learning rate unchanged."""
        state = dict(context.state)
        changes = total(self._changes(contributions, state))
        return Direction(changes, 1.0, 1.0, {key: kept for key, kept in state.items() if int(key.partition("/")[0]) > context.clock})

    def _changes(self, contributions: Sequence[AnyContribution], state: State) -> Iterator[Tensor]:
        """The change of the mean of each clock among the contributions; `state` is updated in place."""
        for clock in dict.fromkeys(each.clock for each in contributions):
            key_of_sum, key_of_count = f"{clock}/sum", f"{clock}/count"
            came = [each for each in contributions if each.clock == clock]
            before, d = state.get(key_of_sum), int(state[key_of_count].item()) if key_of_count in state else 0
            added = total(each.value for each in came)
            state[key_of_sum] = added if before is None else before + added
            state[key_of_count] = torch.tensor(d + count(came))
            mean = state[key_of_sum] / (d + count(came))
            yield mean if before is None else mean - before / d
