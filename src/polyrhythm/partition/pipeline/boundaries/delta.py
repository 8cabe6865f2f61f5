"""Changes of each sample's activations since it came by last, in few bits (Wang et al., 2022, "AQ-SGD")."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from polyrhythm.errors import WorkloadError
from polyrhythm.partition.pipeline.boundaries.by_tensor import ByTensor, stream_of
from polyrhythm.partition.pipeline.boundaries.quantized import FewBits, refused_bits
from polyrhythm.partition.pipeline.boundaries.relative_error import RelativeError
from polyrhythm.partition.pipeline.boundary import Crossing, Encoding
from polyrhythm.partition.pipeline.values import Outline


@dataclass(frozen=True, slots=True)
class Delta:
    """Send the change of activations in `bits` each, and gradients in `backward_bits`.

    Both ends of a cut remember the activations of every sample, which has an id: `Pipeline.step(inputs, targets, ids)`. A sample that comes
    for the first time, and an evaluation, is sent as it is. The memory is as large as the activations of the whole data set.
    """

    bits: int = 2
    backward_bits: int = 8

    @property
    def approximate(self) -> bool:
        return True

    @property
    def by_sample(self) -> bool:
        return True

    def refusal(self) -> str:
        return refused_bits(self.bits, self.backward_bits)

    def activations(self, cut: int, seed: int) -> Encoding:
        return _Changes(FewBits(self.bits), seed, f"changes over cut {cut}")

    def gradients(self, cut: int, seed: int) -> Encoding:
        return ByTensor(FewBits(self.backward_bits), seed, f"gradients over cut {cut}")


class _Changes:
    """One end of the way; `known` are the samples whose activations the other end has too."""

    def __init__(self, code: FewBits, seed: int, name: str) -> None:
        self._code, self._seed, self._name = code, seed, name
        self._error = RelativeError()
        self._known: set[Hashable] = set()
        self._rows: dict[tuple[int, Hashable], Tensor] = {}
        self._new: dict[Crossing, list[bool]] = {}

    @property
    def kept(self) -> int:
        return sum(each.numel() * each.element_size() for each in self._rows.values())

    def _are_new(self, rows: int, crossing: Crossing) -> list[bool]:
        """Which of the rows come for the first time; asked in the order in which they are sent."""
        if not crossing.trains:
            return [True] * rows
        if crossing.ids is None:
            raise WorkloadError("Delta remembers each sample's activations: give Pipeline.step the ids of the batch's samples.")
        new = [each not in self._known for each in crossing.ids]
        self._known.update(crossing.ids)
        return new

    def wires(self, outline: Outline, crossing: Crossing) -> Outline:
        new = self._new[crossing] = self._are_new(outline.shapes[0][0], crossing)
        found = [
            ((self._length(shape, kind, new),), torch.uint8) if kind.is_floating_point else (shape, kind)
            for shape, kind in zip(outline.shapes, outline.types, strict=True)
        ]
        return Outline(tuple(shape for shape, _ in found), tuple(kind for _, kind in found), outline.bare)

    def _length(self, shape: tuple[int, ...], kind: torch.dtype, new: list[bool]) -> int:
        (changes,), _ = self._code.wire((len(new) - sum(new), *shape[1:]), kind)
        return sum(new) * prod(shape[1:]) * kind.itemsize + changes

    def pack(self, tensors: tuple[Tensor, ...], crossing: Crossing) -> tuple[Tensor, ...]:
        new = self._are_new(len(tensors[0]), crossing)
        return tuple(
            self._packed(each.detach(), new, crossing, number) if each.is_floating_point() else each for number, each in enumerate(tensors)
        )

    def _packed(self, value: Tensor, new: list[bool], crossing: Crossing, number: int) -> Tensor:
        first, again = _where(new)
        before = self._remembered(value, again, crossing, number)
        changes = self._code.encode(value[again] - before, stream_of(self._seed, self._name, crossing, number))
        wire = torch.cat([value[first].contiguous().view(-1).view(torch.uint8), changes])
        self._error.add(value, self._unpacked(wire, value.shape, value.dtype, new, crossing, number), crossing)
        return wire

    def unpack(self, wires: tuple[Tensor, ...], outline: Outline, crossing: Crossing) -> tuple[Tensor, ...]:
        # without `wires` where both ends are at one rank
        new = self._new.pop(crossing) if crossing in self._new else self._are_new(outline.shapes[0][0], crossing)
        return tuple(
            self._unpacked(wire, shape, kind, new, crossing, number) if kind.is_floating_point else wire
            for number, (wire, shape, kind) in enumerate(zip(wires, outline.shapes, outline.types, strict=True))
        )

    def _unpacked(
        self, wire: Tensor, shape: tuple[int, ...], kind: torch.dtype, new: list[bool], crossing: Crossing, number: int
    ) -> Tensor:
        """The activations; what both ends remember is the same from here on."""
        first, again = _where(new)
        exact = len(first) * prod(shape[1:]) * kind.itemsize
        found = torch.empty(shape, dtype=kind, device=wire.device)
        found[first] = wire[:exact].clone().view(kind).view(-1, *shape[1:])
        before = self._remembered(found, again, crossing, number)
        found[again] = before + self._code.decode(wire[exact:].clone(), tuple(before.shape), kind)
        if crossing.trains:
            for row, each in zip(found, crossing.ids or (), strict=True):
                self._rows[number, each] = row.clone()
        return found

    def _remembered(self, like: Tensor, rows: list[int], crossing: Crossing, number: int) -> Tensor:
        ids = crossing.ids or ()
        return torch.stack([self._rows[number, ids[row]] for row in rows]) if rows else like[:0]

    def error(self) -> float:
        return self._error.value()


def _where(new: list[bool]) -> tuple[list[int], list[int]]:
    return [row for row, each in enumerate(new) if each], [row for row, each in enumerate(new) if not each]
