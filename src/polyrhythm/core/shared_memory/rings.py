"""The rings of one rank: in C where these were built, else with numpy. Both write the same memory, and can be mixed."""

from __future__ import annotations

import os

from polyrhythm.core.shared_memory.portable_rings import PortableRings
from polyrhythm.core.shared_memory.ring_memory import RingMemory, Rings

try:
    from polyrhythm.core.shared_memory.native_rings import native_rings
except ModuleNotFoundError as missing:
    if missing.name != "polyrhythm.core.shared_memory._rings":
        raise
    native_rings = None  # type: ignore[assignment]  # no C compiler was at hand at the installation

_SPINS = 2000
"""About 20 microseconds: less than it takes to sleep and be woken."""


def rings_of(memory: RingMemory, rank: int) -> Rings:
    """Those of `rank`; the memory must be kept mapped as long as they are used."""
    spins = _SPINS if memory.ranks <= len(os.sched_getaffinity(0)) else 0
    return PortableRings(memory, rank) if native_rings is None else native_rings(memory, rank, spins)
