"""Gradients of batches of unequal size, merged as they arrive, each weighted by its batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import ClassVar

import torch

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, Direction
from polyrhythm.core.protocols.traits import DIFFERENCES, MergeTraits
from polyrhythm.merge.sample_mean import shares
from polyrhythm.merge.total import total


@dataclass(frozen=True, slots=True)
class BatchWeighted:
    """Worker j's contribution counts b_j / b of 1 / P: its batch by the mean batch of all (weighted model update of DLion; HPDC 2021).

    The paper has b_j / b_k, the batch of the sender by that of the receiver, and these weights sum to P only where batches are equal. With
    the mean they always do, so that a round of all workers is the gradient of one batch of all samples. Batches are those
    of the latest contributions; of a worker that has sent none, the mean of the others. State: the batch of each worker, by name.
    """

    traits: ClassVar = MergeTraits(DIFFERENCES, frozenset({Capability.SAMPLES}))
    rule: ClassVar[None] = None

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """Σ b_j / b value_j / P, which with an optimizer is the mean by samples and the learning rate times Σ b_j / (b P)."""
        state = dict(context.state)
        for each in contributions:
            if each.samples:
                state[each.sender] = torch.tensor(each.samples, dtype=torch.float64)
        members = dict.fromkeys([*context.group.members, *(each.sender for each in contributions)])  # one that has left may still count
        every = dict(zip(members, shares([float(state.get(name, 0.0)) for name in members]), strict=True))
        weights = [every[each.sender] if each.samples else 1.0 for each in contributions]
        values = (each.value if weight == 1 else each.value * weight for each, weight in zip(contributions, weights, strict=True))
        weight = sum(map(mul, weights, (each.count for each in contributions)))
        return Direction(total(values), weight, context.group.size, state)
