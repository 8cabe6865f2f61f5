"""Handwritten digits, 8 x 8 pixels: a small convolutional network and a wide perceptron.

The data are the 1,797 digits that scikit-learn carries (Alpaydin & Kaynak, 1998, the test part of "Optical Recognition of Handwritten
Digits"), so nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

TRAINING_SAMPLES, TEST_SAMPLES = 1437, 360
MOST = 16.0
"""The value of a pixel that is all ink."""


@cache
def digits() -> tuple[TensorDataset, TensorDataset]:
    """1,437 digits to train on and 360 to test on: images (1, 8, 8) and classes 0-9; always the same stratified split.

    Pixels are standardised by the mean and deviation of all training pixels: with plain [0, 1] the models learn more slowly and tolerate
    less staleness. The tensors are shared by all workers of one process: do not write into them.
    """
    pixels, classes, train, test = _divided()
    mean, deviation = _moments(pixels[train])
    images = torch.as_tensor((pixels - mean) / deviation, dtype=torch.float32).view(-1, 1, 8, 8)
    labels = torch.as_tensor(classes)
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def normalisation() -> tuple[float, float]:
    """Mean and standard deviation of all training pixels, which are from 0 to `MOST`."""
    pixels, _, train, _ = _divided()
    return _moments(pixels[train])


def _moments(pixels: np.ndarray) -> tuple[float, float]:
    return float(pixels.mean()), float(pixels.std())


def _divided() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels and classes of all digits, and the places of those to train on and to test on."""
    table = _table()
    pixels, classes = table[:, :-1], table[:, -1].astype(int)
    test = _stratified(classes, TEST_SAMPLES)
    return pixels, classes, np.setdiff1d(np.arange(len(classes)), test), test


def _table() -> np.ndarray:
    """64 pixels from 0 to 16 and the class, for each digit: read from scikit-learn's file, because importing it takes seconds."""
    found = importlib.util.find_spec("sklearn")
    if found is None or not found.submodule_search_locations:
        raise WorkloadError(
            "The digits data set is part of scikit-learn, which is not installed: run pip install scikit-learn, "
            "or choose a workload without further requirements, such as chars-gpt."
        )
    return np.loadtxt(Path(found.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz", delimiter=",")


def _stratified(classes: np.ndarray, count: int) -> np.ndarray:
    """Places of `count` samples with every class in proportion; the remainders go to the classes with the largest fractions."""
    draw = rng.stream(0, "digits", "test")
    sizes = np.bincount(classes)
    shares = sizes * count / len(classes)
    taken = np.floor(shares).astype(int)
    residual = np.argsort(taken - shares, kind="stable")[: count - taken.sum()]
    taken[residual] += 1
    return np.concatenate([draw.permutation(np.flatnonzero(classes == kind))[:number] for kind, number in enumerate(taken)])


def small_cnn() -> nn.Module:
    """Two convolutions and two linear layers: 21,546 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def wide_mlp(width: int = 1024) -> nn.Module:
    """Two hidden layers of `width`: 1,126,410 parameters at 1,024."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 10),
    )


def accuracy(model: nn.Module, dataset: TensorDataset, device: str) -> float:
    """The share of `dataset` that `model` names correctly."""
    x, y = (tensor.to(device) for tensor in dataset.tensors)
    with torch.no_grad():
        predicted: Tensor = model(x).argmax(dim=1)
    return (predicted == y).float().mean().item()


def measured(model: nn.Module, dataset: TensorDataset, device: str) -> dict[str, float]:
    """Mean cross-entropy and accuracy on `dataset`."""
    x, y = (tensor.to(device) for tensor in dataset.tensors)
    with torch.no_grad():
        scores = model(x)
    return {"loss": F.cross_entropy(scores, y).item(), "accuracy": (scores.argmax(dim=1) == y).float().mean().item()}


@dataclass(frozen=True, slots=True)
class DigitsCnn:
    """A convolutional network of 21,546 parameters; `batch_size` is each worker's own.

    The learning rate is moderate on purpose: training still converges with gradients that are four steps late, and may not at twice the
    rate.
    """

    epochs: int = 20
    batch_size: int = 16
    learning_rate: float = 0.01
    momentum: float = 0.9

    name: ClassVar[str] = "digits-cnn"
    description: ClassVar[str] = "a CNN of 21,546 parameters on 8x8 handwritten digits; seconds on one core"
    metric: ClassVar[Metric] = Metric("accuracy", higher_is_better=True)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """Always the same split."""
        return Sizes(TRAINING_SAMPLES, TEST_SAMPLES, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        train(worker, small_cnn(), self)


@dataclass(frozen=True, slots=True)
class DigitsMlp:
    """A perceptron of 1,126,410 parameters: much to send for little to compute; `batch_size` is each worker's own."""

    epochs: int = 10
    batch_size: int = 16
    learning_rate: float = 0.01
    momentum: float = 0.9

    name: ClassVar[str] = "digits-mlp"
    description: ClassVar[str] = "an MLP of 1.13 M parameters on the same digits: much to send for little to compute"
    metric: ClassVar[Metric] = Metric("accuracy", higher_is_better=True)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """Always the same split."""
        return Sizes(TRAINING_SAMPLES, TEST_SAMPLES, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        train(worker, wide_mlp(), self)


def _check(settings: DigitsCnn | DigitsMlp) -> None:
    require_positive(settings.name, epochs=settings.epochs, batch_size=settings.batch_size, learning_rate=settings.learning_rate)
    if not 0 <= settings.momentum < 1:
        raise WorkloadError(f"{settings.name} was given momentum={settings.momentum}: it must be at least 0 and below 1.")


def train(worker: WorkloadWorker, model: nn.Module, settings: DigitsCnn | DigitsMlp) -> None:
    """An ordinary loop of PyTorch; only the lines that use `worker` differ from a program of one process."""
    training, test = digits()
    model = model.to(worker.device)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=settings.learning_rate, momentum=settings.momentum)
    model, optimizer = worker.attach(model, optimizer)
    worker.evaluate(lambda model: measured(model, test, worker.device))

    for _ in worker.epochs(settings.epochs):
        for x, y in worker.batches(training, batch_size=settings.batch_size):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(worker.device)), y.to(worker.device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
