"""The norm of the gradients of a model in parts: each element counts once, whoever has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.placement import placement_of

_ADDED = 1e-6
"""As torch adds to the norm."""


def gradient_norm(parameters: Sequence[Tensor], axes: Mapping[str, Axis]) -> Tensor:
    """The Euclidean norm of the whole model's gradients, of which these parameters have this rank's; equal at all ranks of a replica.

    Copies of tied parameters are left out, and squares are added up along the axes over which a parameter is divided.
    """
    squares: dict[tuple[str, ...], Tensor] = {}
    every = dict.fromkeys(name for name in axes)
    divided = {id(each): placement_of(each) for each in parameters}
    for parameter in {id(each): each for each in parameters}.values():
        placement = divided[id(parameter)]
        if parameter.grad is None or placement.copy_of:
            continue
        key = tuple(name for name in every if name in placement.axes)
        squares[key] = squares.get(key, torch.zeros((), dtype=torch.float64)) + parameter.grad.double().square().sum().cpu()
    return _total(squares, axes).sqrt()


def _total(squares: Mapping[tuple[str, ...], Tensor], axes: Mapping[str, Axis]) -> Tensor:
    """Ranks may have parameters over different axes: each adds up all sets of them, in one order."""
    names = tuple(axes)
    keys = [tuple(name for place, name in enumerate(names) if number >> place & 1) for number in range(2 ** len(names))]
    values = torch.stack([squares.get(key, torch.zeros((), dtype=torch.float64)) for key in keys])
    for name, axis in axes.items():
        if axis.size > 1:
            over = torch.tensor([name in key for key in keys])
            values = torch.where(over, axis.all_reduce(torch.where(over, values, 0.0)), values)
    return values.sum()


def clip_gradients(parameters: Sequence[Tensor], norm: float, axes: Mapping[str, Axis]) -> float:
    """Scale the gradients so that the norm of the whole model's is at most `norm`; returns what it was."""
    found = gradient_norm(parameters, axes)
    scale = float((norm / (found + _ADDED)).clamp(max=1.0))
    if scale < 1:
        for parameter in {id(each): each for each in parameters}.values():
            if parameter.grad is not None:
                parameter.grad.mul_(scale)
    return float(found)
