"""Encodings that write each tensor by itself and remember nothing."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.partition.pipeline.boundaries.relative_error import RelativeError
from polyrhythm.partition.pipeline.boundary import Crossing
from polyrhythm.partition.pipeline.values import Outline
from polyrhythm.partition.random_numbers import Stream

Shape = tuple[int, ...]


class TensorCode(Protocol):
    """How one tensor of floating-point numbers is written."""

    def wire(self, shape: Shape, kind: torch.dtype) -> tuple[Shape, torch.dtype]:
        """The shape and type of what is sent for a tensor."""

    def encode(self, value: Tensor, stream: Stream) -> Tensor:
        """What is sent; random numbers are those of `stream`."""

    def decode(self, wire: Tensor, shape: Shape, kind: torch.dtype) -> Tensor:
        """The tensor, or what is like it."""


def stream_of(seed: int, name: str, crossing: Crossing, number: int) -> Stream:
    """The random numbers for one tensor of one crossing."""
    return Stream(seed, f"{name}/{crossing.kind}/{crossing.micro}/{number}", crossing.number)


class ByTensor:
    """The `Encoding` that writes each tensor of floating-point numbers by `code`, and others as they are."""

    kept = 0

    def __init__(self, code: TensorCode, seed: int, name: str) -> None:
        self._code, self._seed, self._name = code, seed, name
        self._error = RelativeError()

    def wires(self, outline: Outline, crossing: Crossing) -> Outline:
        found = [
            self._code.wire(shape, kind) if kind.is_floating_point else (shape, kind)
            for shape, kind in zip(outline.shapes, outline.types, strict=True)
        ]
        return Outline(tuple(shape for shape, _ in found), tuple(kind for _, kind in found), outline.bare)

    def pack(self, tensors: tuple[Tensor, ...], crossing: Crossing) -> tuple[Tensor, ...]:
        return tuple(self._packed(each, crossing, number) if each.is_floating_point() else each for number, each in enumerate(tensors))

    def _packed(self, value: Tensor, crossing: Crossing, number: int) -> Tensor:
        wire = self._code.encode(value.detach(), stream_of(self._seed, self._name, crossing, number))
        self._error.add(value.detach(), self._code.decode(wire, tuple(value.shape), value.dtype), crossing)
        return wire

    def unpack(self, wires: tuple[Tensor, ...], outline: Outline, crossing: Crossing) -> tuple[Tensor, ...]:
        return tuple(
            self._code.decode(wire, shape, kind) if kind.is_floating_point else wire
            for wire, shape, kind in zip(wires, outline.shapes, outline.types, strict=True)
        )

    def error(self) -> float:
        return self._error.value()
