"""Small random models of eight kinds, with inputs: what people train for small devices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import torch
from torch import Tensor, nn

from polyrhythm.workloads.gpt import Gpt, GptSize

Made = tuple[nn.Module, Callable[[int], Tensor]]
"""A model, and inputs of so many samples."""


class Recurrent(nn.Module):
    """The last state of a recurrent network, and a linear layer."""

    def __init__(self, kind: type[nn.RNN | nn.LSTM | nn.GRU], features: int, width: int, layers: int, both: bool) -> None:
        super().__init__()
        self.recurrent = kind(features, width, num_layers=layers, batch_first=True, bidirectional=both)
        self.score = nn.Linear(width * (2 if both else 1), 3)

    def forward(self, sequence: Tensor) -> Tensor:
        states, _ = self.recurrent(sequence)
        scores: Tensor = self.score(states[:, -1])
        return scores


class Encoder(nn.Module):
    """A transformer's encoder, its mean over time, and two outputs."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.score = nn.Linear(width, 4)

    def forward(self, sequence: Tensor) -> dict[str, Tensor]:
        states = self.encoder(sequence)
        return {"scores": self.score(states.mean(1)), "states": states}


class Residual(nn.Module):
    """Convolutions with batch norm, each block added to its input."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        parts = [nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(blocks)]
        self.blocks = nn.ModuleList(parts)
        self.score = nn.Linear(width, 5)

    def forward(self, image: Tensor) -> Tensor:
        found = self.first(image)
        for block in self.blocks:
            found = found + block(found)
        scores: Tensor = self.score(found.mean((2, 3)))
        return scores


class Bag(nn.Module):
    """The mean of embeddings, decoded."""

    def __init__(self, words: int, width: int, mode: str) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(words, width, mode=mode)
        self.score = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.score(self.bag(words))
        return scores


def mlp(draw: Random) -> Made:
    widths = [draw.randint(2, 20) for _ in range(draw.randint(2, 4))]
    activation = draw.choice([nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU])
    parts = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.LayerNorm(b), activation())]
    return nn.Sequential(*parts), lambda samples: torch.randn(samples, widths[0])


def cnn(draw: Random) -> Made:
    width, size = draw.randint(2, 8), draw.choice([6, 8, 12])
    model = nn.Sequential(
        *(nn.Conv2d(draw.choice([3]), width, 3, padding=1), nn.ReLU(), draw.choice([nn.MaxPool2d(2), nn.AvgPool2d(2)]), nn.Dropout(0.5)),
        *(nn.Conv2d(width, 4, 3, stride=draw.choice([1, 2])), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
    )
    return model, lambda samples: torch.randn(samples, 3, size, size)


def batch_norm_cnn(draw: Random) -> Made:
    width = draw.choice([4, 8])
    model = nn.Sequential(
        *(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, groups=width), nn.BatchNorm2d(width)),
        *(nn.Hardswish(), nn.GroupNorm(2, width), nn.Flatten(), nn.Linear(width * 16, 3)),
    )
    model(torch.randn(16, 1, 8, 8))  # statistics that are not those of a fresh layer
    return model, lambda samples: torch.randn(samples, 1, 8, 8)


def recurrent(draw: Random) -> Made:
    features, length = draw.randint(2, 6), draw.randint(2, 7)
    kind = draw.choice([nn.RNN, nn.LSTM, nn.GRU])
    return Recurrent(kind, features, draw.randint(3, 9), draw.randint(1, 2), draw.random() < 0.5), lambda n: torch.randn(
        n, length, features
    )


def encoder(draw: Random) -> Made:
    heads = draw.choice([1, 2])
    width, length = heads * draw.choice([2, 4]), draw.randint(2, 6)
    return Encoder(width, heads, draw.randint(1, 2)), lambda samples: torch.randn(samples, length, width)


def gpt(draw: Random) -> Made:
    words, context, heads = draw.randint(5, 30), draw.randint(2, 12), draw.choice([1, 2, 4])
    model = Gpt(GptSize(words, context, draw.randint(1, 2), heads * 4, heads))
    return model, lambda samples: torch.randint(0, words, (samples, context))


def bag(draw: Random) -> Made:
    words, length = draw.randint(5, 40), draw.randint(1, 6)
    return Bag(words, draw.randint(2, 9), draw.choice(["mean", "sum"])), lambda samples: torch.randint(0, words, (samples, length))


def residual(draw: Random) -> Made:
    return Residual(draw.randint(2, 6), draw.randint(1, 3)), lambda samples: torch.randn(samples, 1, 6, 6)


KINDS: tuple[Callable[[Random], Made], ...] = (mlp, cnn, batch_norm_cnn, recurrent, encoder, gpt, bag, residual)
