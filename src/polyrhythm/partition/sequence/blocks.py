"""Which scores of a divided sequence are computed: blocks of queries and keys, without those that a causal mask hides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.partition.axis import starts
from polyrhythm.partition.piece import Span


@dataclass(frozen=True, slots=True)
class ScoreBlock:
    """Some consecutive queries and keys, by their places in the ranks' own; query i sees the keys up to i + `ahead`, or all."""

    queries: slice
    keys: slice
    ahead: int | None

    def masked(self, scores: Tensor) -> Tensor:
        """The scores of this block with -inf where a key is hidden."""
        if self.ahead is None:
            return scores
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(self.ahead + 1)
        return scores.masked_fill(hidden, -torch.inf)


def visible(queries: Sequence[Span], keys: Sequence[Span], causal: bool) -> Iterator[ScoreBlock]:
    """The blocks of scores between these stretches of a sequence, of which each query sees a key and each key is seen."""
    for row, (first, last) in zip(starts([b - a for a, b in queries]), queries, strict=True):
        for column, (start, end) in zip(starts([b - a for a, b in keys]), keys, strict=True):
            begin, stop = (max(first, start), min(end, last)) if causal else (first, end)
            if begin < last and start < stop:
                ahead = begin - start if causal and begin < stop - 1 else None
                yield ScoreBlock(slice(row + begin - first, row + last - first), slice(column, column + stop - start), ahead)
