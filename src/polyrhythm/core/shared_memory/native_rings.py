"""Rings in C: see `_rings.c`."""

from __future__ import annotations

from polyrhythm.core.shared_memory._rings import NativeRings  # in this form, what is missing can be distinguished from what is broken
from polyrhythm.core.shared_memory.ring_memory import RingMemory, Rings


def native_rings(memory: RingMemory, rank: int, spins: int) -> Rings:
    """Those of `rank`, which looks `spins` times before it sleeps."""
    return NativeRings(memory.memory.content.data_ptr(), rank, memory.ranks, memory.capacity, spins)
