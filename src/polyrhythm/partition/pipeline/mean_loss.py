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

    def of_part(self, outputs: Any, targets: Any, whole: Any) -> Tensor:
        """What a part of a batch adds to the loss of the `whole` batch, whose targets these are."""
        share = float(self.count(targets)) / float(self.count(whole))
        if share == 0:  # the mean of nothing is NaN
            return sum((each.sum() for each in tensors_of(outputs) if each.is_floating_point()), tensors_of(outputs)[0].sum() * 0) * 0
        return self.loss(outputs, targets) * share
