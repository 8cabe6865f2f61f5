"""A compact GPT (Radford et al., 2019): pre-norm blocks, causal attention, learned positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.pipeline.step import Step
from polyrhythm.partition.rules.names import NamedDimension, dimensions


@dataclass(frozen=True, slots=True)
class GptSize:
    """The size of a GPT: `width` is cut among `heads`."""

    vocabulary: int
    context: int
    layers: int
    width: int
    heads: int


class Block(nn.Module):
    """Attention over what came before, then a feed-forward network of four times the width, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.norm_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.join_heads = nn.Linear(width, width, bias=False)
        self.norm_feed_forward = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)
        dimensions(self.query_key_value, weight=(NamedDimension("heads", 3, self.head_width), "width"))
        dimensions(self.join_heads, weight=("width", NamedDimension("heads", 1, self.head_width)))
        dimensions(self.widen, weight=("mlp", "width"))
        dimensions(self.narrow, weight=("width", "mlp"))
        for norm in (self.norm_attention, self.norm_feed_forward):
            dimensions(norm, weight=("width",), bias=("width",))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) to the same."""
        y: Tensor = x + self.attend(self.norm_attention(x))
        z: Tensor = y + self.narrow(F.gelu(self.widen(self.norm_feed_forward(y))))
        return z

    def attend(self, x: Tensor) -> Tensor:
        """Causal attention of as many heads as the queries are for, (batch, time, width) to the same."""
        parts = self.query_key_value(x)
        batch, time, width = parts.shape
        query, key, value = parts.view(batch, time, 3, width // 3 // self.head_width, self.head_width).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined: Tensor = self.join_heads(attended.transpose(1, 2).reshape(batch, time, width // 3))
        return joined


class Gpt(nn.Module):
    """Scores of the next symbol at every place of (batch, time) symbols: (batch, time, vocabulary)."""

    def __init__(self, shape: GptSize) -> None:
        super().__init__()
        self.symbols = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(Block(shape.width, shape.heads) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)
        self.score = nn.Linear(shape.width, shape.vocabulary, bias=False)
        dimensions(self.symbols, weight=("vocabulary", "width"))
        dimensions(self.positions, weight=("context", "width"))
        dimensions(self.norm, weight=("width",), bias=("width",))
        dimensions(self.score, weight=("vocabulary", "width"))

    def forward(self, symbols: Tensor) -> Tensor:
        """The logits of the next symbol at every place."""
        scores: Tensor = self.score(self.norm(self.blocks(self.embed(symbols))))
        return scores

    def embed(self, symbols: Tensor) -> Tensor:
        """Vectors of (batch, time) symbols at their places: (batch, time, width)."""
        places = torch.arange(symbols.shape[1], device=symbols.device)
        vectors: Tensor = self.symbols(symbols) + self.positions(places)
        return vectors

    def sequence(self) -> list[Step]:
        """`forward` in steps that a pipeline can divide."""
        blocks = [Step(block, (f"blocks.{k}",)) for k, block in enumerate(self.blocks)]
        return [Step(self.embed, ("symbols", "positions")), *blocks, Step(self.norm, ("norm",)), Step(self.score, ("score",))]
