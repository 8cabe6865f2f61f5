"""Controllers: rules that adapt settings while a run is under way, such as batch sizes, local steps or packet sizes.

`Strategy(controller=...)` holds one. `core.strategy.control_loop` calls it at each worker, every so many steps.
"""

from polyrhythm.controllers.batch_shares import BatchShares
from polyrhythm.controllers.best_worker import BestWorker
from polyrhythm.controllers.local_step_shares import LocalStepShares
from polyrhythm.controllers.ranges import LinkRanges, SharedRanges
from polyrhythm.controllers.several import Several
from polyrhythm.controllers.step_bytes import StepBytes
from polyrhythm.controllers.total_batch import TotalBatch
from polyrhythm.core.protocols.controller import Fixed

MEMBERS = (
    Fixed(),
    BestWorker(),
    LocalStepShares(),
    SharedRanges(),
    LinkRanges(),
    StepBytes(),
    BatchShares(),
    TotalBatch(12),
    Several((StepBytes(), BatchShares())),
)
"""One of each kind and of each interesting setting: the laws are tested over this list."""

__all__ = [
    "MEMBERS",
    "BatchShares",
    "BestWorker",
    "Fixed",
    "LinkRanges",
    "LocalStepShares",
    "Several",
    "SharedRanges",
    "StepBytes",
    "TotalBatch",
]
