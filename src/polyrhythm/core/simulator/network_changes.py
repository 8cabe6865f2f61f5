"""Has the bandwidths of a network change at their times."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.kernel.events import Faulted
from polyrhythm.core.simulator.scheduler import Scheduler
from polyrhythm.hardware.timetable import BandwidthChange


def plan_changes(scheduler: Scheduler, changes: Sequence[BandwidthChange]) -> None:
    """Schedule each change at its time, those of the past at once."""

    def change(due: BandwidthChange, _: None) -> None:
        scheduler.record(Faulted(scheduler.queue.now, due.place, due.what))
        scheduler.mailroom.change(due.link, due.bandwidth)

    for due in changes:
        scheduler.queue.at(max(due.at, scheduler.queue.now), (change, due, None))
