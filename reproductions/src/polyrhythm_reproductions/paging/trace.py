"""What one iteration accesses, in order."""

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
        """All that it uses, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))

    @property
    def changed(self) -> tuple[str, ...]:
        """What it writes and somebody will read: what has to be kept elsewhere if it leaves fast memory."""
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
        """What must be there during each operation: its blocks, and what the one before has changed, which is copied out meanwhile."""
        before = (self.operations[-1], *self.operations[:-1]) if self.operations else ()
        return [frozenset((*each.blocks, *last.changed)) for each, last in zip(self.operations, before, strict=True)]

    def nbytes(self, blocks: Iterable[str]) -> int:
        """The bytes of some blocks."""
        return sum(self.sizes[block] for block in blocks)
