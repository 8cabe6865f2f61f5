"""Collectives of processes on one host, through memory that they share."""

from polyrhythm.sharing.group import MemoryGroup, Operation, can_share
from polyrhythm.sharing.segment import SharedSegment

__all__ = ["MemoryGroup", "Operation", "SharedSegment", "can_share"]
