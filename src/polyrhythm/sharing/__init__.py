"""Collectives of processes on one host, through memory that they share."""

from polyrhythm.sharing.group import MemoryGroup, Operation, can_share
from polyrhythm.sharing.segment import Segment

__all__ = ["MemoryGroup", "Operation", "Segment", "can_share"]
