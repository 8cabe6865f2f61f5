"""Four ways to compute one convolution of stride 1 without padding, and how many multiplications each takes."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Convolved(NamedTuple):
    """The `output`, the real multiplications that were made, and the numbers of the largest buffer besides inputs and output."""

    output: Tensor
    multiplications: int
    buffer: int


def directly(x: Tensor, weight: Tensor) -> Convolved:
    """A sum over the places of the kernel: N F C H' W' K² multiplications, and no buffer beyond one product."""
    (n, _, height, width), (filters, _, kernel, _) = x.shape, weight.shape
    rows, columns = height - kernel + 1, width - kernel + 1
    output, made = torch.zeros(n, filters, rows, columns, dtype=x.dtype), 0
    for top in range(kernel):
        for left in range(kernel):
            part = x[:, :, top : top + rows, left : left + columns]
            output += torch.einsum("nchw,fc->nfhw", part, weight[:, :, top, left])
            made += part.numel() * filters
    return Convolved(output, made, output.numel())


def by_columns(x: Tensor, weight: Tensor) -> Convolved:
    """One product of matrices: each window of the image is a column (Chellapilla et al., 2006)."""
    (n, channels, height, width), (filters, _, kernel, _) = x.shape, weight.shape
    windows = x.unfold(2, kernel, 1).unfold(3, kernel, 1)  # (n, channels, rows, columns, kernel, kernel)
    rows, columns = height - kernel + 1, width - kernel + 1
    matrix = windows.permute(0, 1, 4, 5, 2, 3).reshape(n, channels * kernel * kernel, rows * columns)
    output = weight.reshape(filters, -1) @ matrix
    return Convolved(output.reshape(n, filters, rows, columns), output.numel() * matrix.shape[1], matrix.numel())


def by_transform(x: Tensor, weight: Tensor) -> Convolved:
    """A product of Fourier transforms, whose work hardly depends on the kernel (Mathieu et al., 2014).

    A complex multiplication is four real ones, and a real transform of n numbers n log2 n.
    """
    (n, channels, height, width), (filters, _, kernel, _) = x.shape, weight.shape
    size = (height, width)  # what wraps around is cut off
    image, filtered = torch.fft.rfft2(x), torch.fft.rfft2(weight, s=size)
    product = torch.einsum("ncuv,fcuv->nfuv", image, filtered.conj())
    output = torch.fft.irfft2(product, s=size)[:, :, : height - kernel + 1, : width - kernel + 1]
    transforms = (n * channels + filters * channels + n * filters) * height * width * math.log2(height * width)
    products = 4 * n * filters * channels * image.shape[2] * image.shape[3]
    return Convolved(output, round(transforms) + products, 2 * max(image.numel(), filtered.numel(), product.numel()))


_INPUT = torch.tensor([[1.0, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], dtype=torch.float64)
_KERNEL = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], dtype=torch.float64)
_OUTPUT = torch.tensor([[1.0, 1, 1, 0], [0, 1, -1, -1]], dtype=torch.float64)
"""The transformations of F(2 × 2, 3 × 3) (Lavin and Gray, 2016, section 4.1), whose entries are additions and halves."""


def by_tiles(x: Tensor, weight: Tensor) -> Convolved:
    """Winograd's minimal filtering: 16 multiplications for each tile of 2 × 2 outputs of a 3 × 3 kernel, in place of 36.

    H' and W' must be even.
    """
    forth, kernels, back = (each.to(x.dtype) for each in (_INPUT, _KERNEL, _OUTPUT))
    tiles = x.unfold(2, 4, 2).unfold(3, 4, 2)  # (n, channels, tile rows, tile columns, 4, 4)
    image = torch.einsum("ia,nchwab,jb->nchwij", forth, tiles, forth)
    filtered = torch.einsum("ia,fcab,jb->fcij", kernels, weight, kernels)
    product = torch.einsum("nchwij,fcij->nfhwij", image, filtered)
    output = torch.einsum("pi,nfhwij,qj->nfhpwq", back, product, back)
    n, filters, rows, _, columns, _ = output.shape
    return Convolved(output.reshape(n, filters, 2 * rows, 2 * columns), image.numel() * filters, max(image.numel(), product.numel()))
