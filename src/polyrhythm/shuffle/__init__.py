"""Shuffles: which samples each worker gets, and how."""

from polyrhythm.shuffle.global_shuffle import GlobalShuffle
from polyrhythm.shuffle.ring_shuffle import RingShuffle

MEMBERS = (GlobalShuffle(), RingShuffle())
"""One of each kind: the laws are tested over this list."""

__all__ = ["MEMBERS", "GlobalShuffle", "RingShuffle"]
