"""The mesh as users write it: named axes with their sizes, the outermost first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polyrhythm.errors import CompositionError

REST = -1
"""The size of an axis that has all workers which the others leave."""


Size = int | tuple[int, ...]
"""The size of an axis; for one that is unequal, as many as there are coordinates of the axes before it: the size at each of them."""


@dataclass(frozen=True, slots=True, init=False)
class Mesh:
    """Named axes of the workers: `Mesh(site=2, dp=2, tp=2)` has eight, of which those with equal `site` and `dp` are neighbours.

    One size may be -1: as many as there are workers for it. Put axes with much traffic last, since neighbours in the order of ranks are
    near each other. One axis may be of unequal sizes, one for each coordinate of the axes before it: in `Mesh(dp=2, pp=(2, 3))` replica 0
    has two stages and replica 1 three, and there are five workers. `axes` then has the largest.

    Raises CompositionError for sizes that are not 1 or more, and for unequal ones of another number.

    Examples:
        >>> Mesh(dp=-1, tp=2).sized(8), Mesh(dp=2, pp=(2, 3)).workers
        (Mesh(dp=4, tp=2), 5)
    """

    axes: tuple[tuple[str, int], ...]
    unequal: tuple[tuple[str, tuple[int, ...]], ...]

    def __init__(self, **sizes: Size) -> None:
        every = [(name, each) for name, size in sizes.items() for each in (size if isinstance(size, tuple) else (size,))]
        for name, size in every:
            known = isinstance(size, int) and not isinstance(size, bool)
            if not known or (size < 1 and (size != REST or isinstance(sizes[name], tuple))):
                raise CompositionError(
                    f"Mesh({name}={sizes[name]!r}) is no number of workers along an axis: give 1 or more, or -1 for the rest."
                )
        if not sizes or [each for _, each in every].count(REST) > 1:
            raise CompositionError(f"{_shown(sizes)} is no mesh: give each axis its size, at most one of them -1 for the rest.")
        unequal = tuple((name, size) for name, size in sizes.items() if isinstance(size, tuple))
        axes = tuple((name, max(size, default=0) if isinstance(size, tuple) else size) for name, size in sizes.items())
        _refuse_unequal(sizes, axes, unequal)
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "unequal", tuple((name, size) for name, size in unequal if len(set(size)) > 1))

    def __repr__(self) -> str:
        return _shown({**dict(self.axes), **dict(self.unequal)})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(name for name, _ in self.axes)

    @property
    def workers(self) -> int | None:
        """The number of workers on it; None where an axis has the rest."""
        sizes = [size for _, size in self.axes]
        if self.unequal:
            [(name, own)] = self.unequal
            return sum(own) * prod(sizes[self.names.index(name) + 1 :])
        return None if REST in sizes else prod(sizes)

    def sized(self, workers: int) -> Mesh:
        """The mesh for that many workers. Raises CompositionError if its sizes do not fit them."""
        known = self.workers or prod(size for _, size in self.axes if size != REST)
        if workers % known or (self.workers is not None and self.workers != workers):
            raise CompositionError(
                f"{self!r} is for {'a multiple of ' if self.workers is None else ''}{known} workers, and there are {workers}: choose sizes "
                "whose product is their number."
            )
        return self if self.unequal else Mesh(**{name: workers // known if size == REST else size for name, size in self.axes})


def _refuse_unequal(sizes: Mapping[str, Size], axes: tuple[tuple[str, int], ...], unequal: Sequence[tuple[str, tuple[int, ...]]]) -> None:
    if len(unequal) > 1:
        names = " and ".join(name for name, _ in unequal)
        raise CompositionError(f"{_shown(sizes)} has unequal sizes along {names}: one axis may have, so give the others one size each.")
    for name, own in unequal:
        before = axes[: [each for each, _ in axes].index(name)]
        if REST in dict(axes).values():
            raise CompositionError(
                f"{_shown(sizes)} has a rest beside unequal sizes, of which there is one for each replica: give each size."
            )
        if len(own) != (places := prod(size for _, size in before)):
            along = ", ".join(f"{each}={size}" for each, size in before) or "no axis before it"
            raise CompositionError(
                f"{_shown(sizes)} has {len(own)} sizes along {name!r} for {places}, the coordinates of {along}: give one for "
                "each of these, or one number for all."
            )


def _shown(sizes: Mapping[str, Size]) -> str:
    return f"Mesh({', '.join(f'{name}={size}' for name, size in sizes.items())})"
