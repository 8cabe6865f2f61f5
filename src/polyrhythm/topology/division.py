"""Over which servers a vector is divided: evenly, or tensor by tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polyrhythm.errors import CompositionError
from polyrhythm.tensors import Layout


@dataclass(frozen=True, slots=True)
class EvenRows:
    """Consecutive parts of nearly equal size, cut between rows (the ranges of keys of Li et al., 2014)."""

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        """One range each."""
        return layout.split(servers)


@dataclass(frozen=True, slots=True)
class ByKey:
    """Tensor k whole to server 9973 k mod S, and tensors of `largest` elements or more in even parts to all (MXNet; Chen et al., 2015).

    The rule of MXNet's KVStoreDist (src/kvstore/kvstore_dist.h, `bigarray_bound_`), whose keys are the numbers of tensors, from 0. It cuts
    large ones between elements; here they are cut between rows. A few tensors of unequal size load servers unequally.
    """

    largest: int = 1_000_000

    def __post_init__(self) -> None:
        if self.largest < 1:
            raise CompositionError(f"ByKey(largest={self.largest}) is no number of elements: give 1 (cut all tensors) or more.")

    def owner(self, key: int, servers: int) -> int:
        """The server of a tensor that is not cut."""
        return key * 9973 % servers

    def cuts(self, numel: int) -> bool:
        """Whether a tensor of so many elements goes to all."""
        return numel >= self.largest

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        """Whole tensors, and rows of large ones."""
        parts: list[tuple[list[str], list[tuple[int, ...]]]] = [([], []) for _ in range(servers)]
        for key, (name, shape) in enumerate(zip(layout.names, layout.shapes, strict=True)):
            single = Layout((name,), (shape,))
            cut = single.split(servers) if self.cuts(prod(shape)) else [single]
            first = 0 if self.cuts(prod(shape)) else self.owner(key, servers)
            for server, piece in enumerate(cut, first):
                parts[server][0].extend(piece.names)
                parts[server][1].extend(piece.shapes)
        return [Layout(tuple(names), tuple(shapes)) for names, shapes in parts]
