"""Memory paging: the contents of a small, fast memory, planned from a trace of one iteration (GeePS; Cui et al., EuroSys 2016)."""

from polyrhythm_reproductions.paging.index_lists import IndexList, KeyedRows
from polyrhythm_reproductions.paging.paged_model import PagedModel
from polyrhythm_reproductions.paging.planner import MemoryPlan, plan_memory
from polyrhythm_reproductions.paging.timing import Transfers, demand_seconds, planned_seconds, unlimited_seconds
from polyrhythm_reproductions.paging.trace import AccessTrace, TracedOperation

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
