"""What does a worker hold?"""

from polyrhythm.partition.replicate import Replicate

MEMBERS = (Replicate(),)
"""The laws are tested over this list."""

__all__ = ["MEMBERS", "Replicate"]
