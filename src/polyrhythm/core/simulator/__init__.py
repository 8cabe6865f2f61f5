"""Virtual time: one process, a heap of events, flows that share links fairly.

Runs with `on=Simulator(...)` use it, and so do the planner, the measuring tools and the reproductions.
"""

from polyrhythm.core.simulator.collectives import ClosedForm, Messages
from polyrhythm.core.simulator.gradients.modes import OneByOne, SideBySide
from polyrhythm.core.simulator.simulator import Instant, Simulator

__all__ = ["ClosedForm", "Instant", "Messages", "OneByOne", "SideBySide", "Simulator"]
