"""Dropout on the part of images of one rank, with the mask of one device."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from torch import Tensor, nn

from polyrhythm.partition.convolution.image import Image
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.dropout import PlacedDropout


@dataclass(frozen=True, slots=True)
class SpatialDropout:
    """Drop elements of an `nn.Dropout` by their places in images of the size `image`.

    One device drops the same with `DropByPlace()`, which draws by places too.
    """

    ends: ClassVar = False
    by_samples: ClassVar = False

    image: Image

    def among(self, samples: tuple[str, ...], axes: tuple[str | None, str | None]) -> SpatialDropout:
        return SpatialDropout(self.image.over(axes))

    @property
    def along(self) -> tuple[str, ...]:
        return self.image.along

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.Dropout):
            return f"SpatialDropout is for nn.Dropout, and this is {type(module).__name__}: name dropouts of single elements."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Dropout)
        lines = self.image.lines(place)

        def place_of(value: Tensor) -> Piece:
            piece = Piece.all_of((*value.shape[:2], self.image.height, self.image.width))
            for line in lines:
                end = list(accumulate(line.sizes))[line.axis.index]
                piece = piece.on(line.dim, (end - line.sizes[line.axis.index], end))
            return piece

        return PlacedDropout(module.p, name, place.seed, place_of).train(module.training)
