"""Faults as values, for virtual time and for real processes.

    schedule([Crash("worker/3", step=40), Disconnect("site/Tokyo", "site/Seoul", at=10, duration=5), RandomStalls(6)], seed, actors)

Times and durations are in seconds of the run's clock.
"""

from typing import get_args

from polyrhythm.hardware.faults.actors import Crash as Crash
from polyrhythm.hardware.faults.actors import Exit as Exit
from polyrhythm.hardware.faults.actors import HoldGIL as HoldGIL
from polyrhythm.hardware.faults.actors import Join as Join
from polyrhythm.hardware.faults.actors import KillWhileWriting as KillWhileWriting
from polyrhythm.hardware.faults.actors import Leave as Leave
from polyrhythm.hardware.faults.actors import Segfault as Segfault
from polyrhythm.hardware.faults.actors import SlowDisk as SlowDisk
from polyrhythm.hardware.faults.actors import Stall as Stall
from polyrhythm.hardware.faults.fault import Fault as Fault
from polyrhythm.hardware.faults.lines import Disconnect as Disconnect
from polyrhythm.hardware.faults.lines import DatagramFaults as DatagramFaults
from polyrhythm.hardware.faults.lines import Drop as Drop
from polyrhythm.hardware.faults.lines import Partition as Partition
from polyrhythm.hardware.faults.rates import Preemptions as Preemptions
from polyrhythm.hardware.faults.rates import RandomCrashes as RandomCrashes
from polyrhythm.hardware.faults.rates import RandomCuts as RandomCuts
from polyrhythm.hardware.faults.rates import RandomStalls as RandomStalls
from polyrhythm.hardware.faults.crew_names import Newcomers as Newcomers
from polyrhythm.hardware.faults.schedule import FaultSource as FaultSource
from polyrhythm.hardware.faults.schedule import schedule as schedule
from polyrhythm.hardware.faults.trace import Trace as Trace

SOURCES: tuple[type[FaultSource], ...] = (*get_args(Fault), Partition, Preemptions, RandomCrashes, RandomCuts, RandomStalls, Trace)
"""The classes of all faults, and of all rules that make some."""
