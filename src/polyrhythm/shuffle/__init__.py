"""Shuffles: which samples each worker gets, and how."""

from polyrhythm.shuffle.global_shuffle import GlobalShuffle
from polyrhythm.shuffle.own_pace import OwnPace
from polyrhythm.shuffle.ring_shuffle import RingShuffle

MEMBERS = (GlobalShuffle(), RingShuffle(), OwnPace())
"""One of each kind: the laws are tested over this list."""

__all__ = ["MEMBERS", "GlobalShuffle", "OwnPace", "RingShuffle"]
