"""Collectives of processes on one host, through memory that they share.

The reducers of real processes (`core.processes.collectives`) and the process group for torch.distributed are built on it.
"""

from polyrhythm.core.shared_memory.group import MemoryGroup, Operation, can_share
from polyrhythm.core.shared_memory.memory import SharedBytes
from polyrhythm.core.shared_memory.segment import SharedSegment

__all__ = ["MemoryGroup", "Operation", "SharedBytes", "SharedSegment", "can_share"]
