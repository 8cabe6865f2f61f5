"""The machines and the networks of a job, as values: the simulator gives them their behaviour in time.

The command line and the planner make them from presets and files, and users in Python from these classes.
"""

from polyrhythm.hardware.chosen import some_machines
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.faults import (
    Crash,
    Disconnect,
    DatagramFaults,
    Drop,
    Exit,
    HoldGIL,
    Join,
    KillWhileWriting,
    Leave,
    Partition,
    Preemptions,
    RandomCrashes,
    RandomCuts,
    RandomStalls,
    Segfault,
    SlowDisk,
    Stall,
    Trace,
)
from polyrhythm.hardware.fleet import Fleet, Jitter, Mixed, RandomStragglers, Straggler
from polyrhythm.hardware.hours import Hours
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.network import Network

__all__ = [
    "Crash",
    "DatagramFaults",
    "Device",
    "Disconnect",
    "Drop",
    "Exit",
    "Fleet",
    "HoldGIL",
    "Hours",
    "Jitter",
    "Join",
    "KillWhileWriting",
    "Leave",
    "MachineTerms",
    "Mixed",
    "Network",
    "Partition",
    "Preemptions",
    "Profile",
    "RandomCrashes",
    "RandomCuts",
    "RandomStalls",
    "RandomStragglers",
    "Segfault",
    "SlowDisk",
    "Stall",
    "Straggler",
    "Trace",
    "some_machines",
]
