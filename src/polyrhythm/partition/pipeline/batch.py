"""One batch on its way through a pipeline, in micro-batches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import near_equal, starts
from polyrhythm.partition.pipeline.boundary import Crossing
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.values import Outline, outline_of, part_of, rows_of
from polyrhythm.partition.tensor_parallel.dropout import BatchRows

BatchKey = tuple[str, int, int]
"""The kind and number of a batch, and the replica that was given it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch of that `number`: what is given to all ranks, of which the first uses the inputs and the last the targets.

    `kind` keeps messages of training and of evaluations apart. `ids` are the samples' names, if they have any. `draws` is the seed of what
    is drawn for it, `replica` the one that was given it, and `made` is what the last stage has made of each micro-batch.
    """

    kind: str
    number: int
    inputs: Any
    targets: Any
    sizes: tuple[int, ...]
    ids: Sequence[Hashable] | None = None
    draws: int = 0
    replica: int = 0
    made: dict[int, Any] = field(default_factory=dict)

    @staticmethod
    def cut(kind: str, number: int, inputs: Any, targets: Any, micro_batches: int, ids: Sequence[Hashable] | None = None) -> Batch:
        """The batch in as many micro-batches, or in as many as it has samples. Raises CompositionError for one without samples."""
        rows = rows_of(inputs)
        if not rows:
            raise CompositionError("A pipeline was given a batch without samples: leave it out at all ranks.")
        return Batch(kind, number, inputs, targets, near_equal(rows, min(micro_batches, rows)), ids)

    @property
    def key(self) -> BatchKey:
        """What tells it from others."""
        return self.kind, self.number, self.replica

    @property
    def samples(self) -> int:
        """Their number."""
        return sum(self.sizes)

    @property
    def micro_batches(self) -> int:
        """Their number."""
        return len(self.sizes)

    def part(self, micro: int) -> tuple[Any, Any]:
        """Inputs and targets of a micro-batch."""
        start = starts(self.sizes)[micro]
        end = start + self.sizes[micro]
        return part_of(self.inputs, start, end), None if self.targets is None else part_of(self.targets, start, end)

    def loss_of(self, micro: int, outputs: Any, objective: MeanLoss) -> Tensor:
        """What a micro-batch adds to the batch's loss."""
        return objective.of_part(outputs, self.part(micro)[1], objective.share(self.part(micro)[1], self.targets))

    def rows(self, micro: int) -> BatchRows:
        """The samples of a micro-batch."""
        start = starts(self.sizes)[micro]
        return BatchRows(self.number, start, start + self.sizes[micro], sum(self.sizes))

    def signature(self, micro: int) -> Outline:
        """The outline of a micro-batch's inputs: micro-batches that have the same have the same outlines at all cuts."""
        return outline_of(self.part(micro)[0])

    def crossing(self, micro: int) -> Crossing:
        """What the ends of a cut know of a micro-batch."""
        start = starts(self.sizes)[micro]
        ids = None if self.ids is None else tuple(self.ids[start : start + self.sizes[micro]])
        return Crossing(self.kind, self.number, micro, ids)

    def loss(self) -> Tensor | None:
        """What the micro-batches add to the loss, added up; None where the last stage is elsewhere."""
        return added([self.made[micro] for micro in range(self.micro_batches)]) if self.made else None

    def output(self) -> Any:
        """What the last stage made of all micro-batches, end to end; None where it is elsewhere."""
        if not self.made:
            return None
        return end_to_end([self.made[micro] for micro in range(self.micro_batches)])


def added(losses: Sequence[Tensor]) -> Tensor:
    """The loss of a batch from those of its micro-batches."""
    return torch.stack(list(losses)).sum().float()


def end_to_end(every: Sequence[Any]) -> Any:
    """The outputs of a batch from those of its micro-batches."""
    return torch.cat(list(every)) if isinstance(every[0], Tensor) else tuple(torch.cat(parts) for parts in zip(*every, strict=True))
