"""Offload: weights and the optimizer's state beyond a budget of memory are in a file."""

from polyrhythm.partition.offload.eviction import FurthestUse, LeastRecentUse
from polyrhythm.partition.offload.offload import Offload

__all__ = ["FurthestUse", "LeastRecentUse", "Offload"]
