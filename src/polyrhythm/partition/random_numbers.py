"""Random numbers by place: an element of a tensor gets the number that belongs to its place in the whole tensor, whoever draws it.

So initialisation and dropout are those of one device, however a model is divided. The generator is Philox (Salmon et al., 2011, "Parallel
random numbers: as easy as 1, 2, 3"), whose n-th number is computed without those before it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.core.streams import derive
from polyrhythm.partition.piece import Piece, Span

_WORDS = 4
"""Numbers of 64 bits that Philox makes at once."""
_GAP = 1024
"""A row of which a piece leaves out fewer numbers than this is drawn whole: to begin another stretch takes longer."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The random numbers of one tensor: `seed` is the run's, `name` the tensor's, and `step` says which draw it is."""

    seed: int
    name: str
    step: int = 0

    @property
    def number(self) -> int:
        """A number of 63 bits, for generators that need a seed."""
        return int.from_bytes(self._digest()[16:24], "big") >> 1

    def uniform(self, piece: Piece) -> Tensor:
        """Numbers between 0 and 1, neither of which occurs, in float64 (piece.shape)."""
        if not piece.numel:
            return torch.empty(piece.shape, dtype=torch.float64)
        raw = self._own(piece)
        return torch.from_numpy(((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).view(piece.shape)

    def normal(self, piece: Piece) -> Tensor:
        """Numbers of the standard normal distribution, in float64 (piece.shape)."""
        return torch.erfinv(2 * self.uniform(piece) - 1) * math.sqrt(2)

    def _own(self, piece: Piece) -> NDArray[np.uint64]:
        """The generator's numbers for the elements of a piece that has any."""
        if not piece.spans or not 0 < piece.whole[-1] - piece.shape[-1] < _GAP:
            return self._raw(piece.runs())
        rows = self._raw(piece.on(-1, (0, piece.whole[-1])).runs()).reshape(-1, piece.whole[-1])
        return np.concatenate([rows[:, start:end] for start, end in piece.spans[-1]], axis=1)

    def _digest(self) -> bytes:
        return hashlib.sha256(f"{self.seed}/{self.step}/{self.name}".encode()).digest()

    def _raw(self, runs: Sequence[Span]) -> NDArray[np.uint64]:
        key = np.frombuffer(self._digest()[:16], dtype=np.uint64)
        generator = np.random.Philox(counter=0, key=key)
        found, at = [], 0
        for start, end in runs:
            first = start // _WORDS
            generator.advance(first - at)
            found.append(generator.random_raw(end - first * _WORDS)[start - first * _WORDS :])
            at = -(-end // _WORDS)
        return np.concatenate(found)


@contextmanager
def drawing(seed: int, *path: str | int) -> Iterator[None]:
    """A context in which torch's own generators, on every device in use, draw the stream `path`; afterwards they go on as before.

    Those of numpy and `random` are left alone, which makes it ten times as fast as `rng.unmoved`.
    """
    before = torch.default_generator.get_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    torch.default_generator.manual_seed(value := derive(seed, *path))
    if devices:
        torch.cuda.manual_seed_all(value)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)
        if devices:
            torch.cuda.set_rng_state_all(devices)
