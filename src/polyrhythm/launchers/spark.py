"""Spark: each worker is a task of a barrier stage."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from polyrhythm.core.extras import needed
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.settings import checked
from polyrhythm.launchers.engine import EngineRuntime
from polyrhythm.launchers.keeper import keep
from polyrhythm.launchers.protocol import Loss, TaskOrder, Tasks

_LEAVING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
@checked
class Spark(EngineRuntime):
    """Runs on Apache Spark, by the tasks of a barrier stage (SPARK-24374), which start together or not at all.

    `session` is a SparkSession, by default the active one or, without any, one of Spark's own configuration. There must be a slot for each
    worker at the same time. If a task is lost, Spark ends the stage, and it is submitted again up to `restarts` times, to continue from the
    newest checkpoint; in a crew that changes the others do not stop, and the task starts another process. `driver` is an address of this
    host that executors can reach; by default Spark's own `spark.driver.host`.
    """

    session: Any = None
    driver: str | None = None
    restarts: int = 3
    startup: float = 300.0
    threads: int = 1
    timeout: float | None = None
    seed: int = 0

    @property
    def kind(self) -> str:
        """The name of this runtime in `--on` and in the JSON."""
        return "spark"

    @property
    def echoes(self) -> bool:
        """Spark keeps what tasks print in the logs of executors; where these are in the driver's own process, it is printed here."""
        master = str(self._context().master)
        return not master.startswith("local") or master.startswith("local-cluster")

    def driver_address(self) -> str:
        """The address at which executors reach this process."""
        return self.driver or str(self._context().getConf().get("spark.driver.host"))

    def start(self, order: TaskOrder) -> Tasks:
        """Submit the barrier stage, with a task for each worker."""
        return _Stage(self._context(), order)

    def _context(self) -> Any:
        sql = needed("pyspark.sql", "spark")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for a session that is made here: executors run the same Python
        return (self.session or sql.SparkSession.builder.getOrCreate()).sparkContext


class _Stage:
    """The barrier stage of one run, submitted in a separate thread."""

    def __init__(self, context: Any, order: TaskOrder) -> None:
        self._context = context
        self._order = order
        self._number = 0
        self._problem: BaseException | None = None
        self._reported = True
        self._thread = threading.Thread()
        self.restart([])

    def losses(self) -> list[Loss]:
        """All tasks, when the stage has ended."""
        if self._thread.is_alive() or self._reported:
            return []
        self._reported = True
        return [Loss(None, f"Spark ended its stage: {_reason(self._problem)}")] if self._problem is not None else []

    def restart(self, ranks: list[int]) -> list[int]:
        """Submit the stage anew, with all tasks, unless they are kept."""
        if self._order.replaces and self._thread.is_alive():
            return ranks
        self._cancel()
        self._number += 1
        self._problem, self._reported = None, False
        self._thread = threading.Thread(target=self._submit, args=(self._group,), name="polyrhythm Spark stage", daemon=True)
        self._thread.start()
        return list(range(self._order.workers))

    def close(self, seconds: float) -> None:
        """End the stage when its tasks have ended, or after so many seconds."""
        self._thread.join(seconds)
        self._cancel()

    @property
    def _group(self) -> str:
        return f"polyrhythm-{id(self)}-{self._number}"

    def _cancel(self) -> None:
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
            self._thread.join(_LEAVING_SECONDS)

    def _submit(self, group: str) -> None:
        self._context.setJobGroup(group, "polyrhythm", interruptOnCancel=True)
        workers, order = self._order.workers, msgspec.json.encode(self._order)
        try:
            self._context.parallelize(range(workers), workers).barrier().mapPartitions(_tasks(order)).collect()
        except Exception as problem:  # py4j's, and what Spark makes of them
            self._problem = problem


def _tasks(order: bytes) -> Any:
    """The function of the stage's partitions."""

    def task(partition: Iterator[int]) -> Iterator[None]:
        from polyrhythm.launchers.task import serve

        (rank,) = partition
        given = msgspec.json.decode(order, type=TaskOrder)
        if not given.changes:
            serve(given, rank)
        elif keep(worker(rank), given.replaces):
            _be(lambda: serve(given, rank))
        return iter(())

    return task


def _be(task: Callable[[], None]) -> NoReturn:
    """Be the task in a child of Spark's Python process, and end without what that does at its end."""
    try:
        task()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _reason(problem: BaseException | None) -> str:
    """The line of a Java exception that says what happened."""
    lines = [line.strip(" :") for line in str(problem).splitlines() if line.strip()]  # py4j begins the one that counts with a colon
    telling = [line for line in lines if "Could not recover" in line or "SparkException" in line or "ExecutorLost" in line]
    return (telling or lines or ["it gave no reason"])[0][:600]
