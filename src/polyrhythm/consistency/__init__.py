"""Consistencies: when a worker exchanges, and when it may continue.

`Strategy(consistency=...)` holds one. The replica asks it when to exchange; servers and peer channels ask it when to merge and who
waits.
"""

from polyrhythm.core.protocols import declared
from polyrhythm.consistency.bulk_synchronous import BulkSynchronous as BulkSynchronous
from polyrhythm.consistency.bounded import Bounded as Bounded
from polyrhythm.consistency.asynchronous import Asynchronous as Asynchronous
from polyrhythm.consistency.softsync import SoftSync as SoftSync
from polyrhythm.consistency.local_steps import LocalSteps as LocalSteps
from polyrhythm.consistency.bounded_delay import BoundedDelay as BoundedDelay
from polyrhythm.consistency.intervals import Intervals as Intervals
from polyrhythm.consistency.warm_start import WarmStart as WarmStart
from polyrhythm.consistency.sampled_clients import SampledClients as SampledClients
from polyrhythm.consistency.buffered import Buffered as Buffered
from polyrhythm.consistency.paced_local_steps import PacedLocalSteps as PacedLocalSteps
from polyrhythm.consistency.schedules import Every as Every
from polyrhythm.consistency.schedules import Switched as Switched

MEMBERS = (
    *declared.members(globals()),
    LocalSteps(2, Asynchronous()),
    LocalSteps(Switched(3, 4)),
    LocalSteps(2, Intervals()),
    WarmStart(2, 2, Intervals(push=2)),
)
"""Examples of each piece, and compositions, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
