"""Consistent hashing of keys to servers, with several virtual nodes for each server."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class HashRing:
    """Each server holds the keys before its `virtual` points on a ring (Li et al., OSDI 2014, section 4.3; Karger et al., 1997).

    A key is a row; the vector lies around the ring in its own order, so that what a server holds is at most `virtual` + 1 ranges of rows.
    The points of a server are the same whatever other servers there are: one that joins takes keys from the others, about 1 / S of all,
    and none moves between these; one that leaves gives its keys to those after it. The more points, the more equal the shares.
    """

    virtual: int = 16

    def __post_init__(self) -> None:
        if not self.virtual >= 1:
            raise CompositionError(f"HashRing(virtual={self.virtual}) has no points on the ring: give 1 or more for each server.")

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        """Some ranges of rows each; empty for a server whose arcs have no row."""
        parts: list[tuple[list[str], list[tuple[int, ...]]]] = [([], []) for _ in range(servers)]
        arcs, total, start = _arcs(servers, self.virtual), layout.numel, 0
        for name, shape, rows in zip(layout.names, layout.shapes, layout.rows, strict=True):
            width = Layout((name,), (shape,)).numel // max(1, rows)
            for server, first, end in _owned(arcs, rows, start / max(1, total), width / max(1, total)):
                whole = end - first == rows
                parts[server][0].append(name if whole else f"{name}[{first}:{end}]")
                parts[server][1].append(shape if whole else (end - first, *shape[1:]))
            start += rows * width
        return [Layout(tuple(names), tuple(shapes)) for names, shapes in parts]


Arc = tuple[float, int]
"""Where an arc of the ring ends, from 0 to 1, and the server that holds it."""


@lru_cache(maxsize=64)
def _arcs(servers: int, virtual: int) -> tuple[Arc, ...]:
    """In order; the last is that of the first point again, beyond the end."""
    points = sorted((_point(f"{server}/{k}"), server) for server in range(servers) for k in range(virtual))
    return (*points, (1.0 + points[0][0], points[0][1]))


def _point(name: str) -> float:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big") / 2**48


def _owned(arcs: tuple[Arc, ...], rows: int, start: float, width: float) -> Iterator[tuple[int, int, int]]:
    """The server, the first row and the one after the last, of each range of the rows of a tensor that begins at `start` on the ring.

    A row is where its middle is; rows without a width are of no server.
    """
    at = 0 if width else rows
    while at < rows:
        k = bisect_left(arcs, (start + (at + 0.5) * width, -1))
        server = arcs[k][1]
        while k + 1 < len(arcs) and arcs[k + 1][1] == server:
            k += 1
        end = max(at + 1, min(rows, ceil((arcs[k][0] - start) / width - 0.5)))
        yield server, at, end
        at = end
