"""Embeddings whose results are divided by samples and by features."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.tensor_parallel.grid import SpreadParameter
from polyrhythm.partition.tensor_parallel.marks import check_mark, marked


class GridEmbedding(nn.Module):
    """`nn.Embedding` with own features of all symbols: (own samples, …) to (own samples, …, own features)."""

    def __init__(self, weight: nn.Parameter, spread: SpreadParameter, padding: int | None) -> None:
        super().__init__()
        self.weight = weight
        self.num_embeddings, self.embedding_dim, self.padding_idx = spread.length, weight.shape[1], padding
        self._spread = spread

    def forward(self, symbols: Tensor) -> Tensor:
        check_mark(symbols, self._spread.grid)
        return marked(F.embedding(symbols, self._spread.whole(self.weight), self.padding_idx), self._spread.grid)
