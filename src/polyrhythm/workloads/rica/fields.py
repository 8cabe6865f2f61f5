"""Filters that see a part of a patch each, with weights of their own at each place, and pools of neighbouring ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-2
"""ε of the cost of a pool, √(ε + H h²)."""


@dataclass(frozen=True, slots=True)
class FieldSizes:
    """Sides of a patch, of a field and of a pool, the stride between fields, and the filters of a place.

    A pool has the filters of one number at `pool` x `pool` neighbouring places.
    """

    side: int
    field: int
    stride: int
    maps: int
    pool: int

    @property
    def places(self) -> int:
        """The number of fields along a side."""
        return (self.side - self.field) // self.stride + 1


class LocalFields(nn.Module):
    """Filters `weight` (places², maps, field²): untied, so that each place has its own. They read a patch, and write it back.

    Codes are W x and reconstructions Wᵀ W x: encoder and decoder have the same weights, as in reconstruction ICA (Le, Karpenko, Ngiam, Ng,
    NIPS 2011). Le et al. (ICML 2012) have two matrices; nothing bounds the scale of codes then, and their sparse cost.
    """

    def __init__(self, sizes: FieldSizes) -> None:
        super().__init__()
        self.sizes = sizes
        weight = torch.randn(sizes.places**2, sizes.maps, sizes.field**2)
        self.weight = nn.Parameter(0.3 * F.normalize(weight, dim=2))

    def pieces(self, images: Tensor) -> Tensor:
        """What each field sees of images (n, side²): (places², n, field²)."""
        square = images.view(-1, 1, self.sizes.side, self.sizes.side)
        return F.unfold(square, self.sizes.field, stride=self.sizes.stride).permute(2, 0, 1)

    def whole(self, pieces: Tensor) -> Tensor:
        """The sum of what fields write (places², n, field²), as images (n, side²): the transpose of `pieces`."""
        square = F.fold(pieces.permute(1, 2, 0), (self.sizes.side,) * 2, self.sizes.field, stride=self.sizes.stride)
        return square.flatten(1)

    def codes(self, images: Tensor) -> Tensor:
        """The responses of filters to images (n, side²): (places², n, maps)."""
        return self.pieces(images) @ self.weight.transpose(1, 2)

    def reconstruction(self, codes: Tensor) -> Tensor:
        """Images (n, side²) of codes."""
        return self.whole(codes @ self.weight)

    def pools(self, codes: Tensor) -> Tensor:
        """√(ε + the sum of squared codes) of each pool: (n, maps, pools, pools)."""
        return (EPSILON + self.sizes.pool**2 * F.avg_pool2d(self._grid(codes.square()), self.sizes.pool, stride=1)).sqrt()

    def spread(self, pools: Tensor) -> Tensor:
        """The sum over all pools that have it, for each code: the transpose of pooling, (places², n, maps)."""
        number, maps = pools.shape[:2]
        kernel = pools.new_ones(1, 1, self.sizes.pool, self.sizes.pool)
        grid = F.conv_transpose2d(pools.reshape(number * maps, 1, *pools.shape[2:]), kernel)
        return grid.view(number, maps, -1).permute(2, 0, 1)

    def _grid(self, codes: Tensor) -> Tensor:
        return codes.permute(1, 2, 0).reshape(codes.shape[1], self.sizes.maps, self.sizes.places, self.sizes.places)


def objective(fields: LocalFields, images: Tensor, sparsity: float) -> Tensor:
    """The mean over images of ‖Wᵀ W x - x‖² + λ Σ √(ε + H (W x)²) (Le et al., ICML 2012, section 3.2); λ is `sparsity`."""
    codes = fields.codes(images)
    wrong = fields.reconstruction(codes) - images
    return (wrong.square().sum() + sparsity * fields.pools(codes).sum()) / len(images)


def gradient(fields: LocalFields, images: Tensor, sparsity: float) -> Tensor:
    """The gradient of the sum of that over images, for the weights (places², maps, field²), without a backward pass."""
    with torch.no_grad():
        seen = fields.pieces(images)
        codes = seen @ fields.weight.transpose(1, 2)
        wrong = fields.pieces(fields.reconstruction(codes) - images)
        of_codes = 2 * wrong @ fields.weight.transpose(1, 2) + sparsity * codes * fields.spread(1 / fields.pools(codes))
        return of_codes.transpose(1, 2) @ seen + 2 * codes.transpose(1, 2) @ wrong
