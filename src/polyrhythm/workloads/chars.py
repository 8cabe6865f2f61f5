"""Text, character by character: a small GPT on the reference topics that CPython's own `help()` shows.

The text comes with Python (`pydoc_data.topics`, 466,195 bytes of 107 kinds in 3.11.7), so nothing is downloaded; it differs
a little between versions of Python, and bits per character are comparable within one version.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pydoc_data.topics import topics
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.gpt import Gpt, GptSize
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

VALIDATION_WINDOWS = 256


@dataclass(frozen=True, slots=True)
class Corpus:
    """A text as numbers below `vocabulary`: the first nine tenths to train on, the rest to validate. `symbols` are the bytes by number."""

    vocabulary: int
    training: Tensor
    validation: Tensor
    symbols: bytes = b""


@cache
def corpus() -> Corpus:
    """The topics in alphabetical order; symbols are the bytes that occur. Shared by all workers of one process: do not write into it."""
    text = "\n".join(topics[name] for name in sorted(topics)).encode()
    present = sorted(set(text))
    number_of = torch.zeros(256, dtype=torch.int64)
    number_of[present] = torch.arange(len(present))
    symbols = number_of[torch.frombuffer(bytearray(text), dtype=torch.uint8).long()]
    boundary = len(symbols) * 9 // 10
    return Corpus(len(present), symbols[:boundary], symbols[boundary:], bytes(present))


def windows(text: Tensor, context: int, samples: int) -> TensorDataset:
    """`samples` evenly spaced pairs of `context` symbols and the symbols that follow each; views of `text`, not copies.

    Raises WorkloadError where the text has not so many.
    """
    places = len(text) - context
    if samples > places:
        raise WorkloadError(
            f"The text has {places:,} windows of {context} symbols, fewer than samples={samples:,}: take fewer, or a shorter context."
        )
    cut = text.unfold(0, context + 1, places // samples)[:samples]
    return TensorDataset(cut[:, :-1], cut[:, 1:])


def bits_per_character(model: nn.Module, text: Tensor, settings: CharsGpt | CharsGpt5m, device: str) -> float:
    """The mean information content of the characters in evenly spaced windows of `text` under `model`."""
    x, y = windows(text, settings.context, VALIDATION_WINDOWS).tensors
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(x), 64):  # 64 windows at a time keep the scores small
            scores = model(x[start : start + 64].to(device))
            total += F.cross_entropy(scores.flatten(0, 1), y[start : start + 64].to(device).flatten(), reduction="sum").item()
    return total / y.numel() / math.log(2)


@dataclass(frozen=True, slots=True)
class CharsGpt:
    """A GPT of about 0.8 M parameters.

    All workers together go once through `samples` windows of `context` characters, so runs with more workers
    take fewer steps each; `batch_size` is each worker's own. By default one worker takes 640 steps, and reaches about 2.2 bits;
    the entropy of the text's single characters is 4.7 bits, and 3.5 where the character before is known.
    """

    samples: int = 10_240
    batch_size: int = 16
    learning_rate: float = 2e-3
    context: int = 64
    layers: int = 4
    width: int = 128
    heads: int = 4

    name: ClassVar[str] = "chars-gpt"
    description: ClassVar[str] = (
        "a GPT of 0.82 M parameters on the text of Python's help(), in bits per character; about a minute on one core"
    )
    metric: ClassVar[Metric] = Metric("bits", higher_is_better=False)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """Windows: those to validate lie behind all that are trained on."""
        return Sizes(self.samples, VALIDATION_WINDOWS, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        train(worker, self)


@dataclass(frozen=True, slots=True)
class CharsGpt5m:
    """The same with about 5 M parameters, for benchmarks."""

    samples: int = 1_600
    batch_size: int = 16
    learning_rate: float = 1e-3
    context: int = 64
    layers: int = 6
    width: int = 256
    heads: int = 8

    name: ClassVar[str] = "chars-gpt-5m"
    description: ClassVar[str] = "the same with 4.8 M parameters, for benchmarks"
    metric: ClassVar[Metric] = Metric("bits", higher_is_better=False)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def sizes(self) -> Sizes:
        """Windows: those to validate lie behind all that are trained on."""
        return Sizes(self.samples, VALIDATION_WINDOWS, self.batch_size)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        train(worker, self)


def _check(settings: CharsGpt | CharsGpt5m) -> None:
    names = ("samples", "batch_size", "learning_rate", "context", "layers", "width", "heads")
    require_positive(settings.name, **{name: getattr(settings, name) for name in names})
    if settings.width % settings.heads:
        raise WorkloadError(
            f"{settings.name} was given width={settings.width} and heads={settings.heads}: the width must be a multiple of the number of "
            "heads."
        )


def network(settings: CharsGpt | CharsGpt5m) -> Gpt:
    """The GPT of that size, for the text's symbols."""
    return Gpt(GptSize(corpus().vocabulary, settings.context, settings.layers, settings.width, settings.heads))


def train(worker: WorkloadWorker, settings: CharsGpt | CharsGpt5m) -> None:
    """An ordinary loop of PyTorch; only the lines that use `worker` differ from a program of one process."""
    text = corpus()
    dataset = windows(text.training, settings.context, settings.samples)
    model: nn.Module = network(settings).to(worker.device)
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.01)
    model, optimizer = worker.attach(model, optimizer)
    worker.evaluate(lambda model: {"bits": bits_per_character(model, text.validation, settings, worker.device)})

    for x, y in worker.batches(dataset, batch_size=settings.batch_size):
        optimizer.zero_grad()
        scores = model(x.to(worker.device))
        loss = F.cross_entropy(scores.flatten(0, 1), y.to(worker.device).flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
