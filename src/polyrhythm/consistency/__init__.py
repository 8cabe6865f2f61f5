"""When must a worker ask, and may it go on?"""

from polyrhythm.consistency.bounded import Bounded
from polyrhythm.consistency.free import Free
from polyrhythm.consistency.intervals import Intervals
from polyrhythm.consistency.local_steps import LocalSteps
from polyrhythm.consistency.lockstep import Lockstep
from polyrhythm.consistency.softsync import SoftSync

MEMBERS = (
    *(Lockstep(), Bounded(0), Bounded(3), Free(), SoftSync(1), SoftSync(2), LocalSteps(1), LocalSteps(4), LocalSteps(2, Free())),
    *(Intervals(), Intervals(push=2, fetch=3), LocalSteps(2, Intervals())),
)
"""One of each kind and of each interesting setting: the laws are tested over this list."""

__all__ = ["MEMBERS", "Bounded", "Free", "Intervals", "LocalSteps", "Lockstep", "SoftSync"]
