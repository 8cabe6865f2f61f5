"""A workload whose table is watched: the rows that each step reads, and the memory of its cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from torch import Tensor

from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.core.tables.table import Table
from polyrhythm.workloads.workload import Metric, Sizes, Workload


@dataclass(slots=True)
class TableWatch:
    """The numbers of rows that each read asked for, but for one of each server, and the bytes of rows that a cache had room for, each time
    when rows had come.
    """

    rows: list[int] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """`job`, whose reads of its table `watch` notes, in virtual time."""

    job: Workload
    watch: TableWatch = field(default_factory=TableWatch, repr=False, compare=False)

    name: ClassVar[str] = "watched-table"
    description: ClassVar[str] = "a workload whose reads of a table are noted"
    metric: ClassVar[Metric] = Metric("score", higher_is_better=True)

    @property
    def sizes(self) -> Sizes:
        return self.job.sizes

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        self.job(cast(WorkloadWorker, _WatchedWorker(worker, self.watch)))


class _WatchedWorker:
    def __init__(self, worker: WorkloadWorker, watch: TableWatch) -> None:
        self.worker, self.watch = worker, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.worker, name)

    def table(self, *given: Any, **options: Any) -> Any:
        table = self.worker.table(*given, **options)
        table._state.cache.store = _WatchedStore(table._state.cache.store, self.watch)
        return _NotingTable(table, self.watch)


class _NotingTable:
    def __init__(self, table: Table, watch: TableWatch) -> None:
        self.wrapped, self.watch = table, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    def get(self, rows: Sequence[int] | Tensor) -> Tensor:
        self.watch.rows.append(len(rows) - self.wrapped.servers)
        return self.wrapped.get(rows)


class _WatchedStore:
    """The store of a cache, whose memory is greatest when rows have come and others have not yet been dropped."""

    def __init__(self, store: Any, watch: TableWatch) -> None:
        self.wrapped, self.watch = store, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    def put(self, rows: Tensor, packet: Any) -> None:
        self.wrapped.put(rows, packet)
        self.watch.nbytes.append(self.wrapped.values.nbytes)
