"""Coefficients in a subspace in place of activations (Ramasinghe et al., 2025, "Protocol Models")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from polyrhythm.partition.piece import Piece
from polyrhythm.partition.pipeline.boundaries.by_tensor import ByTensor, Shape
from polyrhythm.partition.pipeline.boundary import Encoding
from polyrhythm.partition.random_numbers import Stream


@dataclass(frozen=True, slots=True)
class Subspace:
    """Send `dimensions` numbers for each vector of features: its place in an orthonormal subspace that all ranks make from the seed.

    What is outside of the subspace is lost, in both directions, so that gradients are those of the model with a projection at each cut. It
    is without loss for a model whose features at the cuts stay in that subspace. What has fewer features is sent as it is.
    """

    dimensions: int

    @property
    def approximate(self) -> bool:
        return True

    @property
    def by_sample(self) -> bool:
        return False

    def refusal(self) -> str:
        return "" if self.dimensions >= 1 else f"dimensions={self.dimensions} is no size of a subspace: give 1 or more."

    def activations(self, cut: int, seed: int) -> Encoding:
        return ByTensor(_Coefficients(self.dimensions, seed), seed, "subspace")

    def gradients(self, cut: int, seed: int) -> Encoding:
        return ByTensor(_Coefficients(self.dimensions, seed), seed, "subspace")


@lru_cache(maxsize=8)
def basis(features: int, dimensions: int, seed: int) -> Tensor:
    """The orthonormal columns (features, dimensions) of a seed."""
    drawn = Stream(seed, "subspace").normal(Piece.all_of((features, dimensions)))
    found: Tensor = torch.linalg.qr(drawn)[0]
    return found


@dataclass(frozen=True, slots=True)
class _Coefficients:
    dimensions: int
    seed: int

    def wire(self, shape: Shape, kind: torch.dtype) -> tuple[Shape, torch.dtype]:
        return (*shape[:-1], min(shape[-1], self.dimensions)), kind

    def encode(self, value: Tensor, stream: Stream) -> Tensor:
        if value.shape[-1] <= self.dimensions:
            return value
        return value @ basis(value.shape[-1], self.dimensions, self.seed).to(value)

    def decode(self, wire: Tensor, shape: Shape, kind: torch.dtype) -> Tensor:
        if shape[-1] <= self.dimensions:
            return wire
        return wire @ basis(shape[-1], self.dimensions, self.seed).to(wire).T
