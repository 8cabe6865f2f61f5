"""Block schedules: the parts of a model that are updated at the same time, and the workers that update them."""

from polyrhythm.workloads.block_schedules.balanced import balanced
from polyrhythm.workloads.block_schedules.block_schedule import BlockSchedule, Similarity
from polyrhythm.workloads.block_schedules.random_blocks import RandomBlocks
from polyrhythm.workloads.block_schedules.strads import Strads

MEMBERS: tuple[BlockSchedule, ...] = (RandomBlocks(4), Strads(4))
"""One of each schedule, for the laws that every schedule obeys."""

__all__ = ["MEMBERS", "BlockSchedule", "RandomBlocks", "Similarity", "Strads", "balanced"]
