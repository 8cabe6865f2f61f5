"""What every way of the race trains, how it is judged, and by which clock.

The data, split and model are those of `digits-mlp`; for one seed every way has the same first weights and the same batches.
The clock begins when all workers are ready, and stands still while a worker judges its model, which all workers do at the same steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.workloads.digits import accuracy, digits, wide_mlp

TARGET = 0.96
"""Test accuracy, fixed before anything was run."""
BATCH = 16
WORKERS = 3
INTERVAL = 8
"""Steps of three workers between two judgements: 384 samples."""
MOMENTUM = 0.9


@dataclass(frozen=True)
class Heat:
    """One way, once. `cap` is in seconds by the race's clock, `most` in samples of all workers together."""

    way: str
    seed: int
    rate: float
    cap: float = 150.0
    most: int = 40_000


@dataclass(frozen=True)
class Seat:
    """Where a worker sits: `meet` blocks until all have come, `share` tells all what worker 0 has to say."""

    rank: int
    workers: int
    seed: int
    share: Callable[[str], str]
    meet: Callable[[], None]


@dataclass(frozen=True)
class Contestant:
    """A model to call, and what takes a step from its loss. `judged` is what counts, at multiples of `period` steps only."""

    model: Callable[[Tensor], Tensor]
    step: Callable[[Tensor], None]
    judged: nn.Module
    period: int = 1


Way = Callable[[nn.Module, torch.optim.Optimizer, Seat], Contestant]


@dataclass
class Found:
    """How a heat went: the curve holds seconds, samples of all workers, and test accuracy."""

    reached: bool = False
    seconds: float = 0.0
    samples: int = 0
    steps: int = 0
    curve: list[tuple[float, int, float]] = field(default_factory=list)


def batches(seed: int, rank: int, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless: each epoch is shuffled anew and dealt to the workers, equally many full batches for each."""
    images, labels = digits()[0].tensors
    draw = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(images), generator=draw)
        for first in range(0, len(order) - BATCH * workers + 1, BATCH * workers):
            mine = order[first + rank * BATCH : first + (rank + 1) * BATCH]
            yield images[mine], labels[mine]


def begin(seed: int, rate: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    """The first weights of this seed, and the optimizer that every way has."""
    torch.manual_seed(seed)
    model = wide_mlp()
    return model, torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)


def train(way: Way, heat: Heat, seat: Seat) -> Found:
    """Train until this worker's judged model first reaches the target, or a limit is passed."""
    model, optimizer = begin(heat.seed, heat.rate)
    contestant = way(model, optimizer, seat)
    found = Found()
    samples = BATCH * seat.workers
    interval = INTERVAL * WORKERS // seat.workers
    judge(contestant.judged)  # the first evaluation and the first step cost more than later ones
    seat.meet()
    began = time.perf_counter()
    for x, y in batches(heat.seed, seat.rank, seat.workers):
        contestant.step(F.cross_entropy(contestant.model(x), y))
        found.steps += 1
        found.samples += samples
        if found.steps % interval == 0 and found.steps % contestant.period == 0:
            found.seconds = time.perf_counter() - began
            reached = judge(contestant.judged)
            found.curve.append((found.seconds, found.samples, reached))
            found.reached = reached >= TARGET
            if seat.rank == 0 and (found.reached or found.seconds > heat.cap or found.samples >= heat.most):
                return found
            began = time.perf_counter() - found.seconds
    raise AssertionError("batches never end")


def judge(model: nn.Module) -> float:
    """Test accuracy."""
    return accuracy(model, digits()[1], "cpu")
