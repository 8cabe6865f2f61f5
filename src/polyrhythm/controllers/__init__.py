"""Controllers: rules that adapt settings while a run is under way, such as batch sizes, local steps or packet sizes.

`Strategy(controller=...)` holds one. `core.strategy.control_loop` calls it at each worker, every so many steps.
"""

from polyrhythm.core.protocols import declared
from polyrhythm.core.protocols.controller import Fixed as Fixed
from polyrhythm.controllers.best_worker import BestWorker as BestWorker
from polyrhythm.controllers.local_step_shares import LocalStepShares as LocalStepShares
from polyrhythm.controllers.ranges import SharedRanges as SharedRanges
from polyrhythm.controllers.ranges import LinkRanges as LinkRanges
from polyrhythm.controllers.step_bytes import StepBytes as StepBytes
from polyrhythm.controllers.batch_shares import BatchShares as BatchShares
from polyrhythm.controllers.total_batch import TotalBatch as TotalBatch
from polyrhythm.controllers.several import Several as Several

MEMBERS = (
    *declared.members(globals()),
    Several((StepBytes(), BatchShares())),
)
"""Examples of each piece, and compositions, in the order in which messages propose them: the laws are tested over this list."""

__all__ = declared.names(globals())
