"""Shuffles: the samples that each worker gets, and how they reach it.

`Strategy(shuffle=...)` holds one. `worker.batches` and `worker.sampler` get their samples from it, by `core.training.data`.
"""

from polyrhythm.shuffle.global_shuffle import GlobalShuffle
from polyrhythm.shuffle.own_pace import OwnPace
from polyrhythm.shuffle.ring_shuffle import RingShuffle

MEMBERS = (GlobalShuffle(), RingShuffle(), OwnPace())
"""One of each kind: the laws are tested over this list."""

__all__ = ["MEMBERS", "GlobalShuffle", "OwnPace", "RingShuffle"]
