"""The machines and the networks of a job, as values: the simulator gives them their behaviour in time.

The command line and the planner make them from presets and files, and users in Python from these classes.
"""

from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.faults import Crash, Cut, DatagramFaults, Drop, RandomCrashes, RandomCuts, RandomStalls, Stall
from polyrhythm.hardware.fleet import Fleet, Jitter, Mixed, RandomStragglers, Straggler
from polyrhythm.hardware.network import Network

__all__ = [
    "Crash",
    "Cut",
    "DatagramFaults",
    "Device",
    "Drop",
    "Fleet",
    "Jitter",
    "Mixed",
    "Network",
    "Profile",
    "RandomCrashes",
    "RandomCuts",
    "RandomStalls",
    "RandomStragglers",
    "Stall",
    "Straggler",
]
