"""A deep belief net of handwritten digits, trained without a backward pass (Hinton, Osindero, Teh, 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count, pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.belief_net.greedy import UNKNOWN, Examples, GreedySettings, GreedyStage, pretrain, with_labels
from polyrhythm.workloads.belief_net.increments import Increments
from polyrhythm.workloads.belief_net.machine import BoltzmannMachine, TwoWayLayer
from polyrhythm.workloads.belief_net.up_down import LayerGradient, UpDown
from polyrhythm.workloads.digits import MOST, TEST_SAMPLES, TRAINING_SAMPLES, digits, normalisation
from polyrhythm.workloads.workload import Metric, Sizes, require_not_negative, require_positive

WIDTHS = (64, 128, 128)
TOP = 256
CLASSES = 10


@cache
def pixels() -> tuple[TensorDataset, TensorDataset]:
    """The digits of `digits` with pixels (n, 64) from 0 to 1, which count as probabilities of ink."""
    mean, deviation = normalisation()
    found = (TensorDataset(((x * deviation + mean) / MOST).flatten(1).clamp(0, 1), y) for x, y in (each.tensors for each in digits()))
    return next(found), next(found)


def partly_labelled(classes: Tensor, share: float) -> Tensor:
    """The classes (n,) of that share of the samples, always the same ones, and UNKNOWN for the others."""
    order = torch.from_numpy(rng.stream(0, "belief-net", "labelled").permutation(len(classes)))
    unknown = order[max(1, round(share * len(classes))) :]
    return classes.index_fill(0, unknown, UNKNOWN)


@dataclass(frozen=True, slots=True)
class DbnDigits:
    """64-128-128 units and 256 at the top, with the labels beside the 128; `batch_size` is each worker's own.

    Each layer is trained as a restricted Boltzmann machine by contrastive divergence for `epochs`, on states of the layer below, which is
    frozen then; with `fine_epochs` all are fine-tuned up and down. `labelled` is the share of the training samples whose class is known.
    """

    epochs: int = 10
    fine_epochs: int = 10
    batch_size: int = 16
    learning_rate: float = 0.1
    fine_learning_rate: float = 0.06
    gibbs_steps: int = 3
    labelled: float = 1.0

    name: ClassVar[str] = "dbn-digits"
    description: ClassVar[str] = "a deep belief net on the digits: contrastive divergence by layers, then up and down; no backward pass"
    metric: ClassVar[Metric] = Metric("accuracy", higher_is_better=True)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            fine_learning_rate=self.fine_learning_rate,
            gibbs_steps=self.gibbs_steps,
            labelled=self.labelled,
        )
        require_not_negative(self.name, fine_epochs=self.fine_epochs)
        if self.labelled > 1:
            raise WorkloadError(f"{self.name} was given labelled={self.labelled}: it is a share of the samples, so give at most 1.")

    @property
    def sizes(self) -> Sizes:
        """Always the same split."""
        return Sizes(TRAINING_SAMPLES, TEST_SAMPLES, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        training, test = pixels()
        images, classes = (tensor.to(worker.device) for tensor in training.tensors)
        examples = Examples(images, partly_labelled(classes.cpu(), self.labelled).to(worker.device), worker.seed)
        layers = [TwoWayLayer(*sizes) for sizes in pairwise(WIDTHS)]
        top = BoltzmannMachine(WIDTHS[-1] + CLASSES, TOP, CLASSES)
        stages = [_attached(worker, each, each.machine, f"layer{k + 1}", self.learning_rate) for k, each in enumerate(layers)]
        stages.append(_attached(worker, top, top, "top", self.learning_rate))
        worker.evaluate(partial(measured, dataset=test))

        errors = pretrain(worker, stages, examples, GreedySettings(self.epochs, self.batch_size, self.learning_rate))
        worker.report(**{f"error_{depth + 1}": each[-1] for depth, each in enumerate(errors) if each})
        self._fine_tune(worker, UpDown(layers, top, self.gibbs_steps), stages, examples)

    def _fine_tune(self, worker: WorkloadWorker, net: UpDown, stages: Sequence[GreedyStage], examples: Examples) -> None:
        for stage in stages:
            for group in stage.optimizer.param_groups:
                group["lr"] = self.fine_learning_rate
        dataset = TensorDataset(torch.arange(len(examples.images)))
        for epoch in worker.epochs(self.fine_epochs):
            for (which,) in worker.batches(dataset, batch_size=self.batch_size):
                number = count()

                def draw(chances: Tensor, which: Tensor = which, epoch: int = epoch, number: count[int] = number) -> Tensor:
                    noise = examples.noise(chances.shape[1], "up-down", epoch, next(number))[which]
                    return (chances > noise).to(chances.dtype)

                labels = partial(with_labels, net.top, classes=examples.classes[which])
                found, of_top = net.gradients(examples.images[which], labels, draw)
                for layer, sums in zip(net.layers, found, strict=True):
                    _put(layer, sums, self.batch_size)
                stages[-1].increments.put([part / self.batch_size for part in of_top[:3]])
                for stage in stages:
                    stage.optimizer.step()


def _put(layer: TwoWayLayer, sums: LayerGradient, batch_size: int) -> None:
    """The gradients of a layer, without momentum."""
    layer.difference.grad = sums.difference / batch_size
    machine = layer.machine
    for parameter, each in zip(machine.parameters(), (sums.weight, sums.visible_bias, sums.hidden_bias), strict=True):
        parameter.grad = each / batch_size


def _attached(worker: WorkloadWorker, model: nn.Module, machine: BoltzmannMachine, name: str, rate: float) -> GreedyStage:
    model.to(worker.device)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    _, optimizer = worker.attach(model, optimizer, name=name)
    increments = Increments([machine.weight, machine.visible_bias, machine.hidden_bias])
    worker.keep(**{f"{name} increments": increments})
    return GreedyStage(machine, optimizer, increments)


def measured(*models: Any, dataset: TensorDataset) -> dict[str, float]:
    """The mean cross-entropy and accuracy of labels by the free energy of the top machine, and the error of pixels through each layer."""
    *layers, top = models
    x, y = (tensor.to(next(top.parameters()).device) for tensor in dataset.tensors)
    with torch.no_grad():
        units, found = x, dict[str, float]()
        for depth, layer in enumerate(layers):
            units = layer.upward(units)
            back = units
            for below in reversed(layers[: depth + 1]):
                back = below.downward(back)
            found[f"pixel_error_{depth + 1}"] = (back - x).square().sum(dim=1).mean().item()
        scores = -torch.stack([top.free_energy(with_labels(top, units, torch.full_like(y, k))[0]) for k in range(CLASSES)], dim=1)
    return {"accuracy": (scores.argmax(dim=1) == y).float().mean().item(), "loss": F.cross_entropy(scores, y).item(), **found}
