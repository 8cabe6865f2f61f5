"""What goes from one step to the next: a tensor, or a tuple of tensors; and its outline, by which room is made for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polyrhythm.errors import WorkloadError

TYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    *(torch.bool, torch.complex64, torch.complex128),
)
LONGEST = 64
"""Numbers of an outline that is sent."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The shapes and types of the tensors of a value, which is the one tensor itself if it is `bare`."""

    shapes: tuple[tuple[int, ...], ...]
    types: tuple[torch.dtype, ...]
    bare: bool

    def value(self, tensors: tuple[Tensor, ...]) -> Any:
        """The value of these tensors."""
        return tensors[0] if self.bare else tensors

    def numbers(self) -> Tensor:
        """It as `LONGEST` whole numbers."""
        found = [int(self.bare), len(self.shapes)]
        for shape, kind in zip(self.shapes, self.types, strict=True):
            found += [TYPES.index(kind), len(shape), *shape]
        if len(found) > LONGEST:
            raise WorkloadError(
                f"{len(self.shapes)} tensors with so many dimensions cross a cut of the pipeline: return fewer from that step."
            )
        return torch.tensor(found + [0] * (LONGEST - len(found)))

    @staticmethod
    def read(numbers: Tensor) -> Outline:
        """What `numbers` wrote."""
        rest = iter(numbers.tolist())
        bare, count = bool(next(rest)), next(rest)
        shapes, types = [], []
        for _ in range(count):
            types.append(TYPES[next(rest)])
            shapes.append(tuple(next(rest) for _ in range(next(rest))))
        return Outline(tuple(shapes), tuple(types), bare)


def tensors_of(value: Any) -> tuple[Tensor, ...]:
    """The tensors of a value. Raises WorkloadError if it has anything else."""
    found = (value,) if isinstance(value, Tensor) else value
    if not isinstance(found, tuple | list) or not all(isinstance(each, Tensor) for each in found):
        raise WorkloadError(f"A step of the pipeline returned {type(value).__name__}: return a tensor, or a tuple of tensors.")
    return tuple(found)


def outline_of(value: Any) -> Outline:
    """The outline of a value."""
    tensors = tensors_of(value)
    return Outline(tuple(tuple(each.shape) for each in tensors), tuple(each.dtype for each in tensors), isinstance(value, Tensor))


def gradients_of(outline: Outline) -> Outline:
    """The outline of the gradients of a value: those of its floating-point numbers."""
    found = [(shape, kind) for shape, kind in zip(outline.shapes, outline.types, strict=True) if kind.is_floating_point or kind.is_complex]
    return Outline(tuple(shape for shape, _ in found), tuple(kind for _, kind in found), len(found) == 1)


def wanted_gradients(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The gradients of the inputs of a stage that are wanted; zeros where there is none."""
    return tuple(torch.zeros_like(each) if each.grad is None else each.grad for each in inputs if each.requires_grad)


def rows_of(value: Any) -> int:
    """The number of samples, which is the length of the first tensor."""
    return len(tensors_of(value)[0])


def part_of(value: Any, start: int, end: int) -> Any:
    """Some samples of a value."""
    return mapped(value, lambda each: each[start:end])


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The value with each of its tensors changed."""
    return change(value) if isinstance(value, Tensor) else tuple(map(change, tensors_of(value)))
