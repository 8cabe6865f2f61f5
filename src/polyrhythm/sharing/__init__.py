"""Collectives of processes on one host, through memory that they share."""

from polyrhythm.sharing.group import MemoryGroup, Operation, can_share
from polyrhythm.sharing.memory import SharedBytes
from polyrhythm.sharing.segment import SharedSegment

__all__ = ["MemoryGroup", "Operation", "SharedBytes", "SharedSegment", "can_share"]
