"""A batch that another replica was given, as far as this seat has its micro-batches."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from polyrhythm.partition.pipeline.batch import Batch, BatchKey
from polyrhythm.partition.pipeline.links import Links
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.tensor_parallel.dropout import BatchRows


class GivenElsewhere:
    """The batch of `key`, which has as many samples as this seat's `own`. Its parts come over `links`, each once."""

    def __init__(self, key: BatchKey, draws: int, own: Batch, links: Links) -> None:
        self.key, self.draws = key, draws
        self.made: dict[int, Any] = {}
        self._own, self._links = own, links
        self._targets: dict[int, tuple[Any, float]] = {}

    @property
    def samples(self) -> int:
        """Their number."""
        return self._own.samples

    def part(self, micro: int) -> tuple[Any, Any]:
        """The inputs of a micro-batch, and nothing else: targets come with their share of the batch."""
        return self._links.inputs(self, micro), None

    def rows(self, micro: int) -> BatchRows:
        """The samples of a micro-batch."""
        return self._own.rows(micro)

    def loss_of(self, micro: int, outputs: Any, objective: MeanLoss) -> Tensor:
        """What a micro-batch adds to the batch's loss."""
        if micro not in self._targets:  # they are wanted again where the pass is done again
            self._targets[micro] = self._links.targets(self, micro)
        return objective.of_part(outputs, *self._targets[micro])
