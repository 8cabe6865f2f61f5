"""Machines that are trained one after another, each on what the one below makes of the data (Hinton, Osindero, Teh, 2006, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import Dataset, TensorDataset

from polyrhythm.workloads.belief_net.increments import Increments
from polyrhythm.workloads.belief_net.machine import BoltzmannMachine, contrastive_divergence
from polyrhythm.workloads.belief_net.reconstruction_errors import ReconstructionErrors
from polyrhythm.workloads.sample_noise import uniform

UNKNOWN = -1
"""The class of a sample without a label."""


class LayerWorker(Protocol):
    """What training layer by layer asks of a worker."""

    def batches(self, dataset: Dataset[Any], batch_size: int = 32) -> Iterable[tuple[Tensor, ...]]:
        """This worker's batches of one epoch."""

    def epochs(self, count: int) -> Iterable[int]:
        """The numbers of so many epochs."""

    def broadcast(self, value: Any) -> Any:
        """Worker 0's value at every worker."""

    def keep(self, **kept: Any) -> None:
        """Put what has a state into checkpoints."""


@dataclass(frozen=True, slots=True)
class GreedyStage:
    """A machine that is attached to the run with its optimizer, and the increments of its parameters."""

    machine: BoltzmannMachine
    optimizer: Optimizer
    increments: Increments


@dataclass(frozen=True, slots=True)
class Examples:
    """Images (n, pixels) from 0 to 1, their classes (n,), UNKNOWN where there is none, and the stream of their random numbers."""

    images: Tensor
    classes: Tensor
    seed: int

    def noise(self, columns: int, *path: str | int) -> Tensor:
        """Numbers from 0 to 1 (n, columns), a row for each image."""
        return uniform(self.seed, len(self.images), columns, "belief-net", *path)


@dataclass(frozen=True, slots=True)
class GreedySettings:
    """Epochs of each machine, and its steps: `early_momentum` in the first `early_epochs`, `momentum` afterwards, `decay` of weights.

    Every sample counts as much as another: sums over a batch are divided by `batch_size`, also those of a last, smaller one.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    early_momentum: float = 0.5
    momentum: float = 0.9
    early_epochs: int = 5
    decay: float = 2e-4


def pretrain(worker: LayerWorker, stages: Sequence[GreedyStage], examples: Examples, settings: GreedySettings) -> list[list[float]]:
    """Train one machine after another; returns for each the mean squared error of a reconstruction in each epoch, of this worker's batches.

    A machine without labels gets the hidden units of the one below, one with labels their one-hot code too. Below the first they are
    pixels, as probabilities; above it states, which are drawn anew in each epoch.
    """
    data, errors = examples.images, ReconstructionErrors(len(stages))
    worker.keep(errors=errors)
    for depth, stage in enumerate(stages):
        _train(worker, stage, _Level(data, examples, depth), settings, errors)
        # all workers go on from the same frozen machine: what each sees of the weights may be some steps old
        frozen = worker.broadcast(torch.cat([stage.machine.weight.detach(), stage.machine.hidden_bias.detach().unsqueeze(0)])).to(
            data.device
        )
        if depth + 1 < len(stages):
            data = torch.sigmoid(data @ frozen[:-1] + frozen[-1])
    return errors.means


@dataclass(frozen=True, slots=True)
class _Level:
    """What a machine sees of all samples (n, units): pixels at depth 0, else probabilities of the hidden units below."""

    data: Tensor
    examples: Examples
    depth: int

    def visible(self, which: Tensor, epoch: int) -> Tensor:
        """The visible units of samples in an epoch: of hidden units below, states."""
        if self.depth == 0:
            return self.data[which]
        draws = self.examples.noise(self.data.shape[1], self.depth, epoch, "visible")
        return (self.data[which] > draws[which]).to(self.data.dtype)

    def noise(self, units: int, which: Tensor, epoch: int) -> Tensor:
        """The random numbers by which the states of so many hidden units are drawn."""
        return self.examples.noise(units, self.depth, epoch, "hidden")[which]


def _train(worker: LayerWorker, stage: GreedyStage, level: _Level, settings: GreedySettings, errors: ReconstructionErrors) -> None:
    machine, classes = stage.machine, level.examples.classes
    dataset = TensorDataset(torch.arange(len(level.data)))
    for epoch in worker.epochs(settings.epochs):
        momentum = settings.early_momentum if epoch < settings.early_epochs else settings.momentum
        for (which,) in worker.batches(dataset, batch_size=settings.batch_size):
            visible, known = with_labels(machine, level.visible(which, epoch), classes[which])
            stage.optimizer.zero_grad()
            found = contrastive_divergence(machine, visible, level.noise(machine.hidden_bias.numel(), which, epoch), known)
            stage.increments.put([each / settings.batch_size for each in found[:3]], momentum, [settings.decay])
            errors.add(found.error)
            stage.optimizer.step()
        errors.end_epoch(level.depth)


def with_labels(machine: BoltzmannMachine, visible: Tensor, classes: Tensor) -> tuple[Tensor, Tensor | None]:
    """The visible units of a machine, with the one-hot classes where it has labels, and which of them are known."""
    if not machine.labels:
        return visible, None
    labelled = (classes != UNKNOWN).to(visible.dtype).unsqueeze(1)
    codes = F.one_hot(classes.clamp(min=0), machine.labels).to(visible.dtype) * labelled
    return torch.cat([visible, codes], dim=1), torch.cat([torch.ones_like(visible), labelled.expand_as(codes)], dim=1)
