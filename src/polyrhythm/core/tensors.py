"""The flat view of a model: named tensors in one vector, and how that vector is cut.

Codecs, merges, topologies, local rules and the worker's replica all work on such vectors and describe them by a `Layout`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

State = dict[str, Tensor]
"""The state of a piece between steps: tensors by name. Pieces get it as an argument and return the next one."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Names and shapes of the tensors that lie end to end in one flat vector of `numel` elements.

    A layout of a whole model has one entry per parameter; a part of it (`split`) holds ranges of rows of them,
    named like "fc1.weight[0:256]".
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(named: Iterable[tuple[str, Tensor]]) -> Layout:
        """The layout of named tensors, in the order given."""
        pairs = [(name, tuple(tensor.shape)) for name, tensor in named]
        return Layout(tuple(n for n, _ in pairs), tuple(s for _, s in pairs))

    @property
    def numel(self) -> int:
        """Elements of the flat vector."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def rows(self) -> list[int]:
        """Rows of each tensor: the size of its first dimension; one where it has none."""
        return [shape[0] if shape else 1 for shape in self.shapes]

    @property
    def each(self) -> list[Layout]:
        """A layout for each tensor."""
        return [Layout((name,), (shape,)) for name, shape in zip(self.names, self.shapes, strict=True)]

    def views(self, flat: Tensor) -> list[Tensor]:
        """The named tensors as views of `flat` (numel,), in order."""
        parts = flat.split_with_sizes([prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """The views of `flat` by name."""
        return dict(zip(self.names, self.views(flat), strict=True))

    def split(self, parts: int) -> list[Layout]:
        """Cut into `parts` consecutive layouts of nearly equal size, between rows, so that no row lies in two parts.

        A row is one index of the first dimension; a vector has rows of one element. A part may be empty
        where there are fewer rows than parts.
        """
        target, pieces = self.numel / parts, [([], []) for _ in range(parts)]  # type: ignore[var-annotated]
        start = 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            rows, width = (shape[0], prod(shape[1:])) if shape else (1, 1)
            at = 0 if width else rows  # a tensor without elements belongs to no part
            while at < rows:
                part = min(parts - 1, int((start + at * width + width / 2) / target)) if target else 0
                end = rows if part == parts - 1 else min(rows, max(at + 1, _row_of(part + 1, target, start, width)))
                whole = at == 0 and end == rows
                pieces[part][0].append(name if whole else f"{name}[{at}:{end}]")
                pieces[part][1].append(shape if whole else (end - at, *shape[1:]))
                at = end
            start += rows * width
        return [Layout(tuple(names), tuple(shapes)) for names, shapes in pieces]

    def cut(self, flat: Tensor, parts: Sequence[Layout]) -> list[Tensor]:
        """The ranges of `flat` that belong to each of `parts`, as views."""
        return list(torch.split(flat, [part.numel for part in parts]))


def _row_of(part: int, target: float, start: int, width: int) -> int:
    """The first row of a tensor at `start` whose middle lies in `part` or later."""
    row = int((part * target - start - width / 2) / width)
    while (start + row * width + width / 2) / target < part:
        row += 1
    return row


_RANGE = re.compile(r"\[(\d+):(\d+)\]")


def rows_of(name: str, count: int) -> tuple[str, int, int]:
    """The whole tensor of which `name` is a part, and its `count` rows there, first and end.

    Examples:
        >>> rows_of("fc1.weight[256:512][0:100]", 100)
        ('fc1.weight', 256, 356)
    """
    whole, _, _ = name.partition("[")
    first = sum(int(start) for start, _ in _RANGE.findall(name))
    return whole, first, first + count


NO_GRADIENT = -0.0
"""The value sent for a parameter without a gradient.

A sum is -0.0 only where every part of it is, and a quotient keeps the sign, so that all workers see, without another message, that none had
a gradient; codecs that do not keep the sign make it a gradient of zeros.
"""


def without_gradient(parts: Sequence[Tensor]) -> list[bool]:
    """For each part of a merged gradient (numel,): True if no worker had a gradient for it, so that it is NO_GRADIENT throughout.

    One without memory has no values, and counts as a gradient.
    """
    filled = [k for k, part in enumerate(parts) if part.numel() and not part.is_meta]
    absent = [False] * len(parts)
    if filled:
        firsts = torch.cat([parts[k][:1] for k in filled])
        for place in ((firsts == 0) & firsts.signbit()).nonzero().view(-1).tolist():
            part = parts[filled[place]]
            absent[filled[place]] = bool(((part == 0) & part.signbit()).all())
    return absent


def digest(named: Iterable[tuple[str, Tensor]]) -> str:
    """The SHA-256 of tensors by name: equal exactly when names, types, shapes and every bit are equal."""
    total = hashlib.sha256()
    for name, tensor in named:
        total.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        total.update(as_bytes(tensor))
    return total.hexdigest()


def as_bytes(tensor: Tensor) -> memoryview:
    """The raw bytes of a contiguous CPU tensor, without a copy where it already is one."""
    plain = tensor.is_cpu and tensor.dim() == 1 and tensor.is_contiguous() and not tensor.requires_grad  # the usual case, quick to see
    flat = tensor if plain else tensor.detach().cpu().contiguous().view(-1)
    return flat.view(torch.uint8).numpy().data.cast("B")
