"""Divisions of a vector over servers: evenly, tensor by tensor, or layer by layer.

Topologies with parameter servers take one as a setting, and cut vectors by it (`core.protocols.division.Divided`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
class EvenRows:
    """Consecutive parts of nearly equal size, cut between rows (the ranges of keys of Li et al., 2014)."""

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        return layout.split(servers)


@dataclass(frozen=True, slots=True)
@checked
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
        """True if a tensor of so many elements goes to all servers."""
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


@dataclass(frozen=True, slots=True)
class ByLayer:
    """The tensors of a layer together, the largest layer first, to the server that has least so far (Kurth et al., SC 2017, section III-E).

    A layer is a module: "conv1.weight" and "conv1.bias" are one. With as many servers as layers each has one, as in the paper; of fewer
    servers none holds more than 4/3 of what the fullest must under the best division (Graham, 1969). A server for which no layer is left
    holds nothing.
    """

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        """Whole layers, in the order of the vector."""
        sizes: dict[str, int] = {}
        for name, shape in zip(layout.names, layout.shapes, strict=True):
            sizes[_layer_of(name)] = sizes.get(_layer_of(name), 0) + prod(shape)
        loads, owner = [0] * servers, dict[str, int]()
        for layer in sorted(sizes, key=lambda layer: -sizes[layer]):  # a stable order: of equal layers the first comes first
            owner[layer] = loads.index(min(loads))
            loads[owner[layer]] += sizes[layer]
        held = [
            [(name, shape) for name, shape in zip(layout.names, layout.shapes, strict=True) if owner[_layer_of(name)] == server]
            for server in range(servers)
        ]
        return [Layout(tuple(name for name, _ in part), tuple(shape for _, shape in part)) for part in held]


def _layer_of(name: str) -> str:
    """The module that a parameter belongs to; "" for parameters of the model itself."""
    return name.rpartition(".")[0]
