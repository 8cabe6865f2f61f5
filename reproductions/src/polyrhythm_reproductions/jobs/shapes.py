"""Two networks of about equal arithmetic: one has few parameters for it, as convolutions do, the other many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

_CHANNELS, _SIDE, _CLASSES = 3, 8, 10


@dataclass(frozen=True, slots=True)
class Shaped:
    """Steps on images, to be timed: about 1.8 MFLOP each forward, with 14,700 parameters (`conv`) or 0.9 million (`mlp`)."""

    kind: Literal["conv", "mlp"]
    batch_size: int = 32

    def __call__(self, worker: Any) -> None:
        """A few steps."""
        model = _NETWORKS[self.kind]()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
        x = torch.zeros(self.batch_size, _CHANNELS, _SIDE, _SIDE)
        y = torch.zeros(self.batch_size, dtype=torch.long)
        for _ in range(4):
            worker.count(self.batch_size)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def _convolutions() -> nn.Module:
    sizes = ((_CHANNELS, 16), (16, 32), (32, 32))
    layers = [layer for a, b in sizes for layer in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, _CLASSES))


def _perceptron() -> nn.Module:
    inputs, width = _CHANNELS * _SIDE**2, 860
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, _CLASSES))


_NETWORKS = {"conv": _convolutions, "mlp": _perceptron}
