"""Collectives of processes on one host, through memory that they share."""

from polyrhythm.sharing.group import Group, Operation, can_share
from polyrhythm.sharing.segment import Segment

__all__ = ["Group", "Operation", "Segment", "can_share"]
