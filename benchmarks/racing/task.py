"""What every way of the race trains, how it is judged, and by which clock.

For one seed every way has the same first weights and the same batches. The clock begins when all workers are ready, and stands still
while a worker judges its model, which all workers do at the same steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.workloads.chars import CharsGpt, bits_per_character, corpus, network, windows
from polyrhythm.workloads.digits import accuracy, digits, wide_mlp


@dataclass(frozen=True)
class Task:
    """A training: `workers` of `batch` samples each, judged every `interval` steps until `metric` reaches `target`, fixed beforehand.

    A worker alone is judged after as many samples. `rates` is the grid of learning rates, the same for every way.
    """

    name: str
    workers: int
    batch: int
    interval: int
    target: float
    metric: str
    rates: tuple[float, ...]
    build: Callable[[], nn.Module]
    optimizer: Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]
    data: Callable[[], tuple[Tensor, Tensor]]
    judge: Callable[[nn.Module], float]
    higher_is_better: bool
    most: int
    """Samples of all workers together after which a heat ends."""

    def reached(self, value: float) -> bool:
        """Whether `value` is as good as the target."""
        return value >= self.target if self.higher_is_better else value <= self.target

    def begin(self, seed: int, rate: float) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The first weights of this seed, and the optimizer that every way has."""
        torch.manual_seed(seed)
        model = self.build()
        return model, self.optimizer(model.parameters(), rate)

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy, of sequences over all their places."""
        return F.cross_entropy(scores.flatten(0, -2), y.flatten())

    def batches(self, seed: int, rank: int, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless: each epoch is shuffled anew and dealt to the workers, equally many full batches for each."""
        x, y = self.data()
        draw = torch.Generator().manual_seed(seed)
        while True:
            order = torch.randperm(len(x), generator=draw)
            for first in range(0, len(order) - self.batch * workers + 1, self.batch * workers):
                mine = order[first + rank * self.batch : first + (rank + 1) * self.batch]
                yield x[mine], y[mine]


_CHARS = CharsGpt(samples=10_240)


def _windows() -> tuple[Tensor, Tensor]:
    x, y = windows(corpus().training, _CHARS.context, _CHARS.samples).tensors
    return x, y


def _images() -> tuple[Tensor, Tensor]:
    x, y = digits()[0].tensors
    return x, y


TASKS = {
    "digits": Task(
        name="digits",
        workers=3,
        batch=16,
        interval=8,
        target=0.96,
        metric="accuracy",
        rates=(0.01, 0.02, 0.05),
        build=wide_mlp,
        optimizer=lambda parameters, rate: torch.optim.SGD(parameters, lr=rate, momentum=0.9),
        data=_images,
        judge=lambda model: accuracy(model, digits()[1], "cpu"),
        higher_is_better=True,
        most=40_000,
    ),
    "chars": Task(
        name="chars",
        workers=2,
        batch=16,
        interval=16,
        target=2.6,
        metric="bits",
        rates=(0.002, 0.004, 0.006),
        build=lambda: network(_CHARS),
        optimizer=lambda parameters, rate: torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01),
        data=_windows,
        judge=lambda model: bits_per_character(model, corpus().validation, _CHARS, "cpu"),
        higher_is_better=False,
        most=20_480,
    ),
}
"""`digits-mlp` (1.13 M parameters), three workers; `chars-gpt` (0.82 M), two."""


@dataclass(frozen=True)
class Heat:
    """One way, once. `cap` is in seconds by the race's clock, `most` in samples of all workers together."""

    task: str
    way: str
    seed: int
    rate: float
    cap: float = 150.0


@dataclass(frozen=True)
class Seat:
    """Where a worker sits: `meet` blocks until all have come, `share` tells all what worker 0 has to say."""

    task: Task
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
    """How a heat went: the curve holds seconds, samples of all workers, and the metric."""

    reached: bool = False
    seconds: float = 0.0
    samples: int = 0
    steps: int = 0
    curve: list[tuple[float, int, float]] = field(default_factory=list)


def train(way: Way, heat: Heat, seat: Seat) -> Found:
    """Train until this worker's judged model first reaches the target, or a limit is passed."""
    task = seat.task
    model, optimizer = task.begin(heat.seed, heat.rate)
    contestant = way(model, optimizer, seat)
    found = Found()
    samples = task.batch * seat.workers
    interval = task.interval * task.workers // seat.workers
    task.judge(contestant.judged)  # the first evaluation and the first step cost more than later ones
    seat.meet()
    began = time.perf_counter()
    for x, y in task.batches(heat.seed, seat.rank, seat.workers):
        contestant.step(task.loss(contestant.model(x), y))
        found.steps += 1
        found.samples += samples
        if found.steps % interval == 0 and found.steps % contestant.period == 0:
            found.seconds = time.perf_counter() - began
            value = task.judge(contestant.judged)
            found.curve.append((found.seconds, found.samples, value))
            found.reached = task.reached(value)
            if seat.rank == 0 and (found.reached or found.seconds > heat.cap or found.samples >= task.most):
                return found
            began = time.perf_counter() - found.seconds
    raise AssertionError("batches never end")
