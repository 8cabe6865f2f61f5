"""Collectives of processes on one host, through memory that they share.

The reducers of real processes (`core.processes.collectives`) and the process group for torch.distributed are built on it.
"""

from polyrhythm.core.shared_memory.engine import Disagreement
from polyrhythm.core.shared_memory.group import MemoryGroup, Operation, can_share
from polyrhythm.core.shared_memory.memory import SharedBytes
from polyrhythm.core.shared_memory.pieces import PieceGroup
from polyrhythm.core.shared_memory.ring_memory import RingMemory, Rings
from polyrhythm.core.shared_memory.rings import rings_of
from polyrhythm.core.shared_memory.segment import SharedSegment

__all__ = [
    "Disagreement",
    "MemoryGroup",
    "Operation",
    "PieceGroup",
    "RingMemory",
    "Rings",
    "SharedBytes",
    "SharedSegment",
    "can_share",
    "rings_of",
]
