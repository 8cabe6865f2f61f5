"""Random numbers by place: an element of a tensor gets the number that belongs to its place in the whole tensor, whoever draws it.

So initialisation and dropout are those of one device, however a model is divided. The generator is Philox (Salmon et al., 2011, "Parallel
random numbers: as easy as 1, 2, 3"), whose n-th number is computed without those before it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.partition.piece import Piece, Span

_WORDS = 4
"""Numbers of 64 bits that Philox makes at once."""
_SHORT = 64
"""Stretches of a row shorter than this are cut from the whole row."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The random numbers of one tensor: `seed` is the run's, `name` the tensor's, and `step` says which draw it is."""

    seed: int
    name: str
    step: int = 0

    def uniform(self, piece: Piece) -> Tensor:
        """Numbers between 0 and 1, neither of which occurs, in float64 (piece.shape)."""
        if not piece.numel:
            return torch.empty(piece.shape, dtype=torch.float64)
        raw = np.concatenate([self._raw(run) for run in self._runs(piece)])
        drawn = torch.from_numpy(((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
        if len(drawn) == piece.numel:
            return drawn.view(piece.shape)
        return drawn.view(*piece.shape[:-1], piece.whole[-1])[..., piece.indices()[-1]].contiguous()

    def normal(self, piece: Piece) -> Tensor:
        """Numbers of the standard normal distribution, in float64 (piece.shape)."""
        return torch.erfinv(2 * self.uniform(piece) - 1) * math.sqrt(2)

    def _runs(self, piece: Piece) -> Iterable[Span]:
        if piece.spans and piece.shape[-1] < piece.whole[-1] and min((b - a for a, b in piece.spans[-1]), default=0) < _SHORT:
            return piece.on(-1, (0, piece.whole[-1])).runs() if len(piece.spans) > 1 else [(0, piece.whole[-1])]
        return piece.runs()

    def _raw(self, run: Span) -> NDArray[np.uint64]:
        start, end = run
        first = start // _WORDS
        key = np.frombuffer(hashlib.sha256(f"{self.seed}/{self.step}/{self.name}".encode()).digest()[:16], dtype=np.uint64)
        generator = np.random.Philox(counter=first, key=key)
        numbers: NDArray[np.uint64] = generator.random_raw(end - first * _WORDS)
        return numbers[start - first * _WORDS :]
