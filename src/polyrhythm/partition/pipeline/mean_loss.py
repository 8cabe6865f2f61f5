"""The loss of a batch that comes in parts: the mean that one process computes over all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from polyrhythm.partition.pipeline.values import rows_of, tensors_of


@dataclass(frozen=True, slots=True)
class MeanLoss:
    """`loss(outputs, targets)` is a mean over what `count(targets)` counts, by default the samples.

    A loss that leaves some out, such as `cross_entropy` with `ignore_index`, needs a `count` of the others. A loss that compares samples of
    a batch with each other is not a mean, and sees those of one micro-batch only.
    """

    loss: Callable[[Any, Any], Tensor]
    count: Callable[[Any], float] = rows_of

    def share(self, targets: Any, whole: Any) -> float:
        """The share of a part of a batch with the targets `whole`."""
        return float(self.count(targets)) / float(self.count(whole))

    def of_part(self, outputs: Any, targets: Any, share: float) -> Tensor:
        """What a part of a batch, which is that share of it, adds to the loss."""
        if share == 0:  # the mean of nothing is NaN
            return sum((each.sum() for each in tensors_of(outputs) if each.is_floating_point()), tensors_of(outputs)[0].sum() * 0) * 0
        return self.loss(outputs, targets) * share
