"""Division of a vector over servers: each server holds some of its tensors, or rows of them.

Topologies with parameter servers take a `Division` as a setting; workers and servers cut and join vectors by `Divided`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.core.tensors import Layout

Stretch = tuple[int, int]
"""The first element of a range of a vector, and the one after its last."""
_ROWS = re.compile(r"(.*)\[(\d+):\d+\]")


class Division(Protocol):
    """A rule that divides a vector; servers and workers have the same one. Settings are frozen."""

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        """The part of each server: tensors of `layout`, or rows of them, named as by `Layout.split`; every row in one part."""


@dataclass(frozen=True)
class Divided:
    """A vector of the layout `whole` in parts, each of which lies in some `stretches` of it, in order."""

    whole: Layout
    parts: tuple[Layout, ...]
    stretches: tuple[tuple[Stretch, ...], ...]

    @staticmethod
    def of(whole: Layout, parts: Sequence[Layout]) -> Divided:
        """The division into `parts`, by their names: "fc1.weight" is a tensor of `whole`, "fc1.weight[2:5]" three rows of it."""
        sizes = [prod(shape) for shape in whole.shapes]
        starts = dict(zip(whole.names, accumulate([0, *sizes[:-1]]), strict=True)) if sizes else {}
        widths = {name: size // max(1, rows) for name, size, rows in zip(whole.names, sizes, whole.rows, strict=True)}
        return Divided(whole, tuple(parts), tuple(_merged(_stretches(part, starts, widths)) for part in parts))

    @cached_property
    def consecutive(self) -> bool:
        """True if the parts lie end to end in the vector."""
        every = [stretch for stretches in self.stretches for stretch in stretches]
        return len(_merged(every)) <= 1 and all(len(stretches) <= 1 for stretches in self.stretches)

    def cut(self, flat: Tensor) -> list[Tensor]:
        """The parts of `flat` (numel,), as views where they lie in one stretch."""
        return [flat[slice(*stretches[0])] if len(stretches) == 1 else _joined(flat, stretches) for stretches in self.stretches]

    def join(self, pieces: Sequence[Tensor]) -> Tensor:
        """The vector (numel,) that has `pieces` as its parts; a new tensor."""
        if self.consecutive:
            return torch.cat(list(pieces))
        flat = torch.empty(self.whole.numel, dtype=pieces[0].dtype, device=pieces[0].device)
        for piece, stretches in zip(pieces, self.stretches, strict=True):
            at = 0
            for start, end in stretches:
                flat[start:end] = piece[at : at + end - start]
                at += end - start
        return flat


def place_of(name: str, wholes: Container[str]) -> tuple[str, int]:
    """The tensor among `wholes` that contains the part `name`, and the part's first row there.

    Examples:
        >>> place_of("w[0:2][1:2]", {"w", "w[0:2]"})
        ('w[0:2]', 1)
    """
    whole, row = name, 0
    while whole not in wholes:  # a name may end in brackets itself
        match = _ROWS.fullmatch(whole)
        assert match is not None, f"{name} is no part of the vector"
        whole, row = match[1], row + int(match[2])
    return whole, row


def _stretches(part: Layout, starts: dict[str, int], widths: dict[str, int]) -> list[Stretch]:
    found = []
    for name, shape in zip(part.names, part.shapes, strict=True):
        whole, row = place_of(name, starts)
        start = starts[whole] + row * widths[whole]
        found.append((start, start + prod(shape)))
    return found


def _joined(flat: Tensor, stretches: Sequence[Stretch]) -> Tensor:
    return torch.cat([flat[start:end] for start, end in stretches]) if stretches else flat[:0]


def _merged(stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """The stretches with adjacent ones joined, and without empty ones."""
    merged: list[Stretch] = []
    for start, end in stretches:
        if start == end:
            continue
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return tuple(merged)
