"""What the workers of `schedules.py` train, in several ways, and a ledger of the samples that they use."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr

SAMPLES, BATCH, EPOCHS = 67, 2, 2
WAYS = ("plain", "plain", "counted", "counted", "calls", "evaluated", "two models", "range")
"""How a training function trains."""
_X = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(1))
_DATA = _X, _X[:, :3].argmax(1), torch.arange(SAMPLES)


@dataclass(slots=True)
class Ledger:
    """What the training functions of a run have used, and with which weights they ended, by worker."""

    used: dict[str, list[tuple[int, tuple[int, ...]]]] = field(default_factory=lambda: defaultdict(list))
    held: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)


class Places(nn.Module):
    """A weight for each sample of each epoch, which says how often it was applied."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(EPOCHS, SAMPLES, dtype=torch.float64))

    def forward(self, epoch: int, samples: Tensor) -> Tensor:
        return self.weight[epoch, samples].sum()


def training(way: str, ledger: Ledger, scale: bool = True) -> Callable[[pr.Worker], None]:
    """The training function of a way; where it counts, gradients are multiplied by the number of workers if `scale`."""

    def train(worker: pr.Worker) -> None:
        name, models = worker._context.port.name, _models(worker, way)
        for epoch, inputs, labels, samples in _batches(worker, way):
            ledger.held[name] = (epoch, tuple(samples.tolist()))
            for model, optimizer in models:
                optimizer.zero_grad()
                if way == "counted":
                    loss = model(epoch, samples) * (worker.workers if scale else 1)
                else:
                    loss = F.cross_entropy(model(inputs), labels)
                loss.backward()
                optimizer.step()
            if way == "calls" and samples.numel():
                worker.mean(loss.detach())
                worker.report(loss=worker.broadcast(1.0))
            ledger.used[name].append(ledger.held.pop(name))
        worker.finish()
        weights = [parameter.detach().numpy().tobytes() for model, _ in models for parameter in model.parameters()]
        ledger.digests[name] = hashlib.sha256(b"".join(weights)).hexdigest()

    return train


def _models(worker: pr.Worker, way: str) -> list[tuple[nn.Module, Any]]:
    torch.manual_seed(0)
    made: list[nn.Module] = [Places()] if way == "counted" else [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))]
    if way == "two models":
        made.append(nn.Linear(6, 3))
    rate, momentum = (1.0, 0.0) if way == "counted" else (0.05, 0.5)
    attached = [worker.attach(each, torch.optim.SGD(each.parameters(), lr=rate, momentum=momentum)) for each in made]
    if way == "evaluated":
        worker.evaluate(lambda model: {"loss": F.cross_entropy(model(_DATA[0]), _DATA[1]).item()})
    return attached


def _batches(worker: pr.Worker, way: str) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
    if way != "range":
        for epoch in worker.epochs(EPOCHS):
            for inputs, labels, samples in worker.batches(_DATA, batch_size=BATCH):
                yield epoch, inputs, labels, samples
        return
    for step in worker.range(14):
        place = (3 * step + worker.rank) % SAMPLES
        worker.count(1)
        yield 0, _DATA[0][place : place + 1], _DATA[1][place : place + 1], torch.arange(0)
