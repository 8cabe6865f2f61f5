"""Embeddings whose results are divided by samples and by features."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.tensor_parallel.grid import Spread


class GridEmbedding(nn.Module):
    """`nn.Embedding` with own features of all symbols: (own samples, …) to (own samples, …, own features)."""

    def __init__(self, weight: nn.Parameter, spread: Spread, padding: int | None) -> None:
        super().__init__()
        self.weight = weight
        self.num_embeddings, self.embedding_dim, self.padding_idx = spread.length, weight.shape[1], padding
        self._spread = spread

    def forward(self, symbols: Tensor) -> Tensor:
        return F.embedding(symbols, self._spread.whole(self.weight), self.padding_idx)
