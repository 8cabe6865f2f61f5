"""Consistencies: when a worker exchanges, and when it may continue.

`Strategy(consistency=...)` holds one. The replica asks it when to exchange; servers and peer channels ask it when to merge and who
waits.
"""

from polyrhythm.consistency.asynchronous import Asynchronous
from polyrhythm.consistency.bounded import Bounded
from polyrhythm.consistency.bounded_delay import BoundedDelay
from polyrhythm.consistency.buffered import Buffered
from polyrhythm.consistency.bulk_synchronous import BulkSynchronous
from polyrhythm.consistency.intervals import Intervals
from polyrhythm.consistency.local_steps import LocalSteps
from polyrhythm.consistency.paced_local_steps import PacedLocalSteps
from polyrhythm.consistency.sampled_clients import SampledClients
from polyrhythm.consistency.schedules import Every, Switched
from polyrhythm.consistency.softsync import SoftSync
from polyrhythm.consistency.warm_start import WarmStart

MEMBERS = (
    *(
        BulkSynchronous(),
        Bounded(0),
        Bounded(3),
        Asynchronous(),
        SoftSync(1),
        SoftSync(2),
        LocalSteps(1),
        LocalSteps(4),
        LocalSteps(2, Asynchronous()),
        LocalSteps(Every(4, offset=1)),
        LocalSteps(Switched(3, 4)),
    ),
    *(BoundedDelay(), BoundedDelay(2), BoundedDelay(None)),
    *(Intervals(), Intervals(push=2, fetch=3), LocalSteps(2, Intervals())),
    *(WarmStart(3), WarmStart(2, 2, Intervals(push=2))),
    *(SampledClients(0.5, 2), Buffered(2), PacedLocalSteps(3)),
)
"""One of each kind and of each interesting setting: the laws are tested over this list."""

__all__ = [
    "MEMBERS",
    "Asynchronous",
    "Bounded",
    "BoundedDelay",
    "Buffered",
    "BulkSynchronous",
    "Every",
    "Intervals",
    "LocalSteps",
    "PacedLocalSteps",
    "SampledClients",
    "SoftSync",
    "Switched",
    "WarmStart",
]
