"""Networks that predict the symbol after a window: an embedding, two residual blocks of one family, and scores from the last place."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONTEXT = 8
"""Symbols of a window."""
BLOCKS = 2
_HEAD = 8


class NextSymbol(nn.Module):
    """(batch, CONTEXT) symbols to the scores of the next, (batch, symbols); `mixer` makes what mixes places in a block of a width."""

    def __init__(self, symbols: int, width: int, mixer: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.symbols = nn.Embedding(symbols, width)
        self.places = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.blocks = nn.Sequential(*(SymbolBlock(width, mixer(width)) for _ in range(BLOCKS)))
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, symbols)
        nn.init.normal_(self.symbols.weight, std=0.1)

    def forward(self, symbols: Tensor) -> Tensor:
        """The scores."""
        scores: Tensor = self.score(self.norm(self.blocks(self.symbols(symbols) + self.places))[:, -1])
        return scores


class SymbolBlock(nn.Module):
    """What mixes places, and a network of four times the width, each of the normed input and added to it."""

    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norm_places, self.mixer = nn.LayerNorm(width), mixer
        self.norm_channels = nn.LayerNorm(width)
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, CONTEXT, width) to the same."""
        y: Tensor = x + self.mixer(self.norm_places(x))
        z: Tensor = y + self.channels(self.norm_channels(y))
        return z


class AttentionMixer(nn.Module):
    """Attention of all places to all."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query_key_value, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, places, width) to the same."""
        batch, places, width = x.shape
        query, key, value = self.query_key_value(x).view(batch, places, 3, width // _HEAD, _HEAD).permute(2, 0, 3, 1, 4)
        joined: Tensor = self.join(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, places, width))
        return joined


class PlaceMixer(nn.Module):
    """A network over the places, the same for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Sequential(nn.Linear(CONTEXT, 2 * CONTEXT), nn.GELU(), nn.Linear(2 * CONTEXT, CONTEXT))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, places, width) to the same."""
        mixed: Tensor = self.places(x.transpose(1, 2)).transpose(1, 2)
        return mixed


class ConvolutionMixer(nn.Module):
    """A convolution over each place and the two before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, places, width) to the same."""
        mixed: Tensor = self.convolution(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)
        return mixed


def attention(width: int) -> nn.Module:
    """What mixes places in a Transformer."""
    return AttentionMixer(width)


def mixing(width: int) -> nn.Module:
    """What mixes places in an MLP-Mixer."""
    return PlaceMixer()


def convolution(width: int) -> nn.Module:
    """What mixes places in a convolutional network."""
    return ConvolutionMixer(width)
