"""The mesh as users write it: named axes with their sizes, the outermost first."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polyrhythm.errors import CompositionError

REST = -1
"""The size of an axis that has all workers which the others leave."""


@dataclass(frozen=True, slots=True, init=False)
class Mesh:
    """Named axes of the workers: `Mesh(site=2, dp=2, tp=2)` has eight, of which those with equal `site` and `dp` are neighbours.

    One size may be -1: as many as there are workers for it. Put axes with much traffic last, since neighbours in the order of ranks are
    near each other. Raises CompositionError for sizes that are not 1 or more.

    Examples:
        >>> Mesh(dp=-1, tp=2).sized(8)
        Mesh(dp=4, tp=2)
    """

    axes: tuple[tuple[str, int], ...]

    def __init__(self, **sizes: int) -> None:
        wrong = {
            name: size for name, size in sizes.items() if isinstance(size, bool) or not isinstance(size, int) or (size < 1 and size != REST)
        }
        if wrong:
            name, size = next(iter(wrong.items()))
            raise CompositionError(f"Mesh({name}={size!r}) is no number of workers along an axis: give 1 or more, or -1 for the rest.")
        if not sizes or [*sizes.values()].count(REST) > 1:
            raise CompositionError(
                f"{_shown(tuple(sizes.items()))} is no mesh: give each axis its size, at most one of them -1 for the rest."
            )
        object.__setattr__(self, "axes", tuple(sizes.items()))

    def __repr__(self) -> str:
        return _shown(self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(name for name, _ in self.axes)

    @property
    def workers(self) -> int | None:
        """The number of workers on it; None where an axis has the rest."""
        sizes = [size for _, size in self.axes]
        return None if REST in sizes else prod(sizes)

    def sized(self, workers: int) -> Mesh:
        """The mesh for that many workers. Raises CompositionError if its sizes do not fit them."""
        known = prod(size for _, size in self.axes if size != REST)
        if workers % known or (self.workers is not None and self.workers != workers):
            raise CompositionError(
                f"{self!r} is for {'a multiple of ' if self.workers is None else ''}{known} workers, and there are {workers}: choose sizes "
                "whose product is their number."
            )
        return Mesh(**{name: workers // known if size == REST else size for name, size in self.axes})


def _shown(axes: tuple[tuple[str, int], ...]) -> str:
    return f"Mesh({', '.join(f'{name}={size}' for name, size in axes)})"
