"""What is trained: a model, an example of a replica's batch, its loss, and its optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.partition.pipeline.values import mapped, part_of


@dataclass(frozen=True, slots=True)
class Subject:
    """`make` makes the whole model; `loss` is the mean loss of its outputs and the targets, for a replica's batch of these shapes.

    Several inputs are a tuple: the arguments of the model's forward pass, or what its first step is given.
    """

    make: Callable[[], nn.Module]
    inputs: Any
    targets: Any
    loss: Callable[[Any, Any], Tensor]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

    def without_memory(self) -> Subject:
        """The same, with a batch on the device "meta"."""
        inputs, targets = (mapped(each, lambda one: one.to("meta")) for each in (self.inputs, self.targets))
        return Subject(self.make, inputs, targets, self.loss, self.optimizer)

    def with_samples(self, count: int) -> Subject:
        """The same, with the first `count` samples of the batch."""
        inputs, targets = part_of(self.inputs, 0, count), part_of(self.targets, 0, count)
        return Subject(self.make, inputs, targets, self.loss, self.optimizer)


def outputs(model: nn.Module, inputs: Any) -> Any:
    """What the model makes of one input, or of a tuple of several."""
    return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)
