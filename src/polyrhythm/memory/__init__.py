"""What is in a small, fast memory when: planned from a trace of one iteration (GeePS; Cui et al., EuroSys 2016)."""

from polyrhythm.memory.index_lists import IndexList, KeyedRows
from polyrhythm.memory.paged_model import PagedModel
from polyrhythm.memory.planner import MemoryPlan, plan_memory
from polyrhythm.memory.timing import Transfers, demand_seconds, planned_seconds, unlimited_seconds
from polyrhythm.memory.trace import AccessTrace, TracedOperation

__all__ = [
    "AccessTrace",
    "IndexList",
    "KeyedRows",
    "MemoryPlan",
    "PagedModel",
    "TracedOperation",
    "Transfers",
    "demand_seconds",
    "plan_memory",
    "planned_seconds",
    "unlimited_seconds",
]
