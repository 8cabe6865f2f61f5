"""Shuffles: the samples that each worker gets, and how they reach it.

`Strategy(shuffle=...)` holds one. `worker.batches` and `worker.sampler` get their samples from it, by `core.training.data`.
"""

from polyrhythm.core.protocols import declared
from polyrhythm.shuffle.global_shuffle import GlobalShuffle as GlobalShuffle
from polyrhythm.shuffle.ring_shuffle import RingShuffle as RingShuffle
from polyrhythm.shuffle.by_shares import ByShares as ByShares
from polyrhythm.shuffle.own_pace import OwnPace as OwnPace

MEMBERS = declared.members(globals())
"""Examples of each piece, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
