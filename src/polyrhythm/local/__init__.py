"""How do workers step between exchanges?"""

from polyrhythm.local.proximal import Proximal
from polyrhythm.local.reset_moments import ResetMoments
from polyrhythm.pieces.local import PlainSteps

MEMBERS = (PlainSteps(), Proximal(0.1), ResetMoments())
"""One of each kind: the laws are tested over this list."""

__all__ = ["MEMBERS", "PlainSteps", "Proximal", "ResetMoments"]
