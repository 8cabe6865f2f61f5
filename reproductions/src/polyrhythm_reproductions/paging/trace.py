"""The memory accesses of one iteration, in order. The pager records a trace, from which the planner makes its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class TracedOperation:
    """One part of an iteration, and the blocks that must be in fast memory while it is computed.

    It changes or makes those that it `writes`; those that it `frees` are not used again before they are made anew. `flops` are its
    floating-point operations, as far as they are known.
    """

    name: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    frees: tuple[str, ...] = ()
    flops: float = 0.0

    @property
    def blocks(self) -> tuple[str, ...]:
        """The blocks that it uses, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))

    @property
    def changed(self) -> tuple[str, ...]:
        """The blocks that it writes and that are read later: they are kept elsewhere if they leave fast memory."""
        return tuple(block for block in self.writes if block not in self.frees)


@dataclass(frozen=True)
@checked
class AccessTrace:
    """The operations of an iteration, which the next one repeats, and the bytes of each block."""

    operations: tuple[TracedOperation, ...]
    sizes: Mapping[str, int]

    @cached_property
    def working_set(self) -> int:
        """The bytes of all blocks."""
        return self.nbytes(self.sizes)

    @cached_property
    def footprints(self) -> list[frozenset[str]]:
        """The blocks in memory during each operation: its own, and those that the one before changed, which are copied out meanwhile."""
        before = (self.operations[-1], *self.operations[:-1]) if self.operations else ()
        return [frozenset((*each.blocks, *last.changed)) for each, last in zip(self.operations, before, strict=True)]

    def nbytes(self, blocks: Iterable[str]) -> int:
        """The bytes of some blocks."""
        return sum(self.sizes[block] for block in blocks)
