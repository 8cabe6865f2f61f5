"""What does a run adapt while it is under way, and by what?"""

from polyrhythm.controllers.batch_shares import BatchShares
from polyrhythm.controllers.best_worker import BestWorker
from polyrhythm.controllers.local_step_shares import LocalStepShares
from polyrhythm.controllers.partitions import LinkPartitions, SharedPartitions
from polyrhythm.controllers.several import Several
from polyrhythm.controllers.step_bytes import StepBytes
from polyrhythm.controllers.total_batch import TotalBatch
from polyrhythm.core.protocols.controller import Fixed

MEMBERS = (
    Fixed(),
    BestWorker(),
    LocalStepShares(),
    SharedPartitions(),
    LinkPartitions(),
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
    "LinkPartitions",
    "LocalStepShares",
    "Several",
    "SharedPartitions",
    "StepBytes",
    "TotalBatch",
]
