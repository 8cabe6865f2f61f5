"""Proximal gradient descent where the weights are held, for an l1 penalty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import AnyContribution, DifferenceMerge, Direction, rates_of
from polyrhythm.core.protocols.traits import GRADIENTS, MergeTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError
from polyrhythm.merge.mean import Mean


@dataclass(frozen=True, slots=True)
class AsCombined:
    """A rule that does nothing: the direction already is the step."""

    takes_rate: ClassVar = False
    takes_norm: ClassVar = True

    def initial(self, layout: Layout) -> State:
        return {}

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        return direction, state


@dataclass(frozen=True, slots=True)
@checked
class ProximalSGD:
    """w ← prox(w - η g), the soft threshold at η λ, on the aggregate g of a group (Li et al., OSDI 2014, algorithm 3; NIPS 2014).

    λ is `penalty`, that of the mean loss; g is the direction that `inner` combines, and η the first learning rate of the workers'
    optimizer, of which nothing else is used. Gradients that are s merges old on average are given η / (1 + `per_delay` s), as the rate
    that converges under delays up to τ is 1 / (L_var + τ L_cov): `per_delay` is how much features overlap, L_cov / L_var. The threshold
    is applied once for a group and not for each contribution, which would solve another problem. A weight stays
    as it is where no worker has a gradient for it. Without a penalty it is SGD.
    """

    traits: ClassVar = MergeTraits(GRADIENTS, one_rate=True)
    rule: ClassVar = AsCombined()

    penalty: float = 0.0
    per_delay: float = 0.0
    inner: DifferenceMerge = field(default_factory=Mean)

    def __post_init__(self) -> None:
        if not (0 <= self.penalty < math.inf and 0 <= self.per_delay < math.inf):
            raise CompositionError(f"{self!r} cannot step: penalty and per_delay must be numbers of at least 0.")
        if not self.inner.traits.payloads & GRADIENTS or self.inner.rule is not None:
            raise CompositionError(f"{self!r} needs a sum of gradients: give it a merge without an optimizer, such as Mean().")

    def combine(self, contributions: Sequence[AnyContribution], context: ExchangeContext) -> Direction:
        """The step that is subtracted from the weights."""
        direction, rates = self.inner.combine(contributions, context), rates_of(contributions)
        delay = sum(each.count * each.staleness for each in contributions) / sum(each.count for each in contributions)
        rate = (rates[0] if rates else 0.0) * direction.scale / (1 + self.per_delay * delay)
        mean, weights = direction.average(), context.weights
        step = rate * mean
        if self.penalty:
            over = (weights - step).clamp(-rate * self.penalty, rate * self.penalty)
            step = torch.where(over == weights - step, weights, step + over)  # zeros are exact
            step = torch.where((mean == 0) & mean.signbit(), weights.new_zeros(()), step)  # no worker has a gradient there
        return Direction(step, 1.0, 1.0, direction.state)


EXAMPLES = (ProximalSGD(0.01, per_delay=0.1),)
