"""Text of a known Markov source, and three families of networks that predict its next symbol: for studies of how loss falls with size.

The entropy of the source is known, so that the loss above it is too: what a larger model can still learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.core.streams import stream
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.markov_blocks import CONTEXT, NextSymbol, attention, convolution, mixing
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

SYMBOLS = 32
TEST = 1_024
_CHAINS, _CONCENTRATION, _UNIFORM = 64, 0.2, 0.02
_SEED = 0


@dataclass(frozen=True, slots=True)
class MarkovText:
    """Windows of `CONTEXT` symbols, the symbols that follow, and the mean information of those in the test under the source, in nats."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor
    entropy: float


@cache
def source() -> np.ndarray:
    """The probabilities of the next symbol after any two: rows of a Dirichlet distribution around a Zipf law, with a little of all."""
    zipf = 1 / np.arange(1, SYMBOLS + 1)
    drawn = stream(_SEED, "markov source").dirichlet(SYMBOLS * _CONCENTRATION * zipf / zipf.sum(), size=SYMBOLS**2)
    return np.asarray((1 - _UNIFORM) * drawn + _UNIFORM / SYMBOLS)


@cache
def text(samples: int, draw: int) -> MarkovText:
    """`samples` windows to train on from the stretch `draw` of the text, and the same windows to test on for all: do not write into it."""
    training, test = _windows(samples, "markov text", draw), _windows(TEST, "markov test", 0)
    before, after = test[:, -3] * SYMBOLS + test[:, -2], test[:, -1]
    entropy = float(-np.log(source()[before.numpy(), after.numpy()]).mean())
    return MarkovText(training[:, :-1], training[:, -1], test[:, :-1], test[:, -1], entropy)


def _windows(count: int, name: str, draw: int) -> Tensor:
    """The first `count` windows, of parallel chains, in random order."""
    numbers, cumulative = stream(_SEED, name, draw), source().cumsum(axis=1)
    length = -(-count // _CHAINS) + CONTEXT
    before, last = numbers.integers(0, SYMBOLS, (2, _CHAINS))
    symbols = np.empty((_CHAINS, length), dtype=np.int64)
    for place in range(length):
        drawn = numbers.random((_CHAINS, 1))
        before, last = last, np.minimum((cumulative[before * SYMBOLS + last] < drawn).sum(axis=1), SYMBOLS - 1)
        symbols[:, place] = last
    cut = torch.from_numpy(symbols).unfold(1, CONTEXT + 1, 1).reshape(-1, CONTEXT + 1)
    return cut[torch.from_numpy(numbers.permutation(len(cut)))[:count]]


@dataclass(frozen=True, slots=True)
class MarkovTransformer:
    """Blocks of attention, of heads of eight, and a network of four times the width.

    Every family goes once through `samples` windows, in batches of `batch_size`, and sees as many symbols whatever its `width`; `draw` is
    the stretch of the text that is trained on. The learning rate falls to zero over the second half.
    """

    width: int = 16
    samples: int = 20_000
    batch_size: int = 64
    learning_rate: float = 4e-3
    draw: int = 0

    name: ClassVar[str] = "markov-transformer"
    description: ClassVar[str] = "a Transformer on text of a Markov source, in nats above the source's entropy; a few seconds on one core"
    metric: ClassVar[Metric] = Metric("excess_loss", higher_is_better=False)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """Windows: those of the test come from another stretch."""
        return Sizes(self.samples, TEST, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        _train(worker, self, NextSymbol(SYMBOLS, self.width, attention))


@dataclass(frozen=True, slots=True)
class MarkovMixer:
    """The same with blocks that mix places, and then channels, by dense layers (Tolstikhin et al., 2021)."""

    width: int = 16
    samples: int = 20_000
    batch_size: int = 64
    learning_rate: float = 4e-3
    draw: int = 0

    name: ClassVar[str] = "markov-mixer"
    description: ClassVar[str] = "an MLP-Mixer on the same text"
    metric: ClassVar[Metric] = Metric("excess_loss", higher_is_better=False)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """Windows: those of the test come from another stretch."""
        return Sizes(self.samples, TEST, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        _train(worker, self, NextSymbol(SYMBOLS, self.width, mixing))


@dataclass(frozen=True, slots=True)
class MarkovConvolution:
    """The same with blocks of a convolution over three places, and a network of four times the width."""

    width: int = 16
    samples: int = 20_000
    batch_size: int = 64
    learning_rate: float = 4e-3
    draw: int = 0

    name: ClassVar[str] = "markov-convolution"
    description: ClassVar[str] = "a convolutional network on the same text"
    metric: ClassVar[Metric] = Metric("excess_loss", higher_is_better=False)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """Windows: those of the test come from another stretch."""
        return Sizes(self.samples, TEST, self.batch_size, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        _train(worker, self, NextSymbol(SYMBOLS, self.width, convolution))


AnyFamily = MarkovTransformer | MarkovMixer | MarkovConvolution


def _check(settings: AnyFamily) -> None:
    names = ("width", "samples", "batch_size", "learning_rate")
    require_positive(settings.name, **{name: getattr(settings, name) for name in names})
    if settings.width % 8:
        raise WorkloadError(f"{settings.name} was given width={settings.width}: give a multiple of 8, the width of a head of attention.")
    if settings.draw < 0:
        raise WorkloadError(f"{settings.name} was given draw={settings.draw}: stretches of the text are counted from 0.")


def _train(worker: WorkloadWorker, settings: AnyFamily, network: nn.Module) -> None:
    """An ordinary loop of PyTorch; the rate falls with the part of its samples that the worker has passed."""
    data = text(settings.samples, settings.draw)
    model: nn.Module = network.to(worker.device)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    model, optimizer = worker.attach(model, optimizer)

    def tested(model: nn.Module) -> dict[str, float]:
        with torch.no_grad():
            loss = F.cross_entropy(model(data.test_x.to(worker.device)), data.test_y.to(worker.device)).item()
        return {"excess_loss": loss - data.entropy, "loss": loss}

    worker.evaluate(tested)
    steps = max(1, settings.samples // (settings.batch_size * worker.workers))
    for step, (x, y) in enumerate(worker.batches(TensorDataset(data.x, data.y), batch_size=settings.batch_size)):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * min(1.0, 2 * max(1, steps - step) / steps)
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(worker.device)), y.to(worker.device)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
