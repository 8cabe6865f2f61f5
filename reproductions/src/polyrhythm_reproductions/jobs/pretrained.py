"""A classifier of digits that begins with machines trained layer by layer, or with random weights, and then learns by backpropagation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.belief_net.greedy import UNKNOWN, Examples, GreedySettings, GreedyStage, pretrain
from polyrhythm.workloads.belief_net.increments import Increments
from polyrhythm.workloads.belief_net.machine import BoltzmannMachine
from polyrhythm.workloads.dbn_digits import CLASSES, TOP, WIDTHS, partly_labelled, pixels
from polyrhythm.workloads.digits import TEST_SAMPLES, TRAINING_SAMPLES, accuracy
from polyrhythm.workloads.workload import Metric, Sizes


class Start(Protocol):
    """What the machines are before they become layers of a classifier."""

    def prepare(self, stages: Sequence[GreedyStage], examples: Examples) -> Mapping[str, float]:
        """Set or train the weights; returns what was measured."""


@dataclass(frozen=True, slots=True)
class GreedyStart:
    """Contrastive divergence for so many epochs, on all images without their labels; measures the error of each machine by epoch."""

    epochs: int = 12
    batch_size: int = 16
    learning_rate: float = 0.1

    def prepare(self, stages: Sequence[GreedyStage], examples: Examples) -> Mapping[str, float]:
        """Train them one after another, without a run."""
        settings = GreedySettings(self.epochs, self.batch_size, self.learning_rate)
        errors = pretrain(_Alone(torch.Generator().manual_seed(examples.seed)), stages, examples, settings)
        return {f"error_{depth}_{epoch}": value for depth, each in enumerate(errors) for epoch, value in enumerate(each)}


@dataclass(frozen=True, slots=True)
class _Alone:
    """Deals batches to itself."""

    draw: torch.Generator

    def batches(self, dataset: Any, batch_size: int = 32) -> Iterator[tuple[Tensor, ...]]:
        order = torch.randperm(len(dataset), generator=self.draw)
        for indices in order.split(batch_size):  # type: ignore[no-untyped-call]
            yield dataset[indices]

    def epochs(self, count: int) -> Iterable[int]:
        return range(count)

    def broadcast(self, value: Any) -> Any:
        return value

    def keep(self, **kept: Any) -> None:
        """Nothing to do: it writes no checkpoints."""


@dataclass(frozen=True, slots=True)
class Glorot:
    """Random weights of the usual scale (Glorot and Bengio, AISTATS 2010)."""

    def prepare(self, stages: Sequence[GreedyStage], examples: Examples) -> Mapping[str, float]:
        """Draw them."""
        draw = torch.Generator().manual_seed(examples.seed)
        for stage in stages:
            weight = torch.empty(stage.machine.weight.shape)
            nn.init.xavier_uniform_(weight, generator=draw)
            with torch.no_grad():
                stage.machine.weight.copy_(weight)
        return {}


class SigmoidNet(nn.Module):
    """Machines as sigmoid layers, and a linear one for the classes."""

    def __init__(self, machines: Sequence[BoltzmannMachine]) -> None:
        super().__init__()
        self.machines = nn.ModuleList(machines)
        self.head = nn.Linear(TOP, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """The scores of classes (n, 10)."""
        for machine in self.machines:
            images = machine.hidden(images)  # type: ignore[operator]
        scores: Tensor = self.head(images)
        return scores


@dataclass(frozen=True, slots=True)
class PretrainedClassifier:
    """64-128-128-256-10 by Adam, on the share of the digits that is `labelled`, after its `start`. It runs as one worker."""

    start: Start
    learning_rate: float
    labelled: float = 0.1
    epochs: int = 100
    batch_size: int = 16

    name: ClassVar[str] = "pretrained-digits"
    description: ClassVar[str] = "digits with few labels, after training without labels or from random weights"
    metric: ClassVar[Metric] = Metric("accuracy", higher_is_better=True)

    @property
    def sizes(self) -> Sizes:
        """Always the same split."""
        return Sizes(TRAINING_SAMPLES, TEST_SAMPLES, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once."""
        training, test = pixels()
        images, classes = training.tensors
        classes = partly_labelled(classes, self.labelled)
        machines = [BoltzmannMachine(*sizes) for sizes in pairwise((*WIDTHS, TOP))]
        stages = [
            GreedyStage(machine, torch.optim.SGD(machine.parameters(), lr=0.1), Increments(list(machine.parameters())))
            for machine in machines
        ]
        model: Any = SigmoidNet(machines)
        found = self.start.prepare(stages, Examples(images, torch.full_like(classes, UNKNOWN), worker.seed))
        optimizer: Any = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        model, optimizer = worker.attach(model, optimizer)
        worker.evaluate(lambda model: {"accuracy": accuracy(model, test, worker.device)})
        worker.report(**found)
        known = classes != UNKNOWN
        for _ in worker.epochs(self.epochs):
            for x, y in worker.batches(TensorDataset(images[known], classes[known]), batch_size=self.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
