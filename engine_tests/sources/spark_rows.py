"""Rows of a Spark DataFrame at the workers of a run: `python engine_tests/sources/spark_rows.py WAY WORKERS` prints figures.

With `files`, Spark's executors write Parquet files, which the processes of `pr.run` read, and with `engine` the tasks of
`pr.launchers.Spark`. With `partitions`, each worker is a barrier task of Spark and joins there; it reads that task's partition, the second
time from an Arrow file.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from seen import EPOCHS, ROWS, free_port, once, place, resident, train

import polyrhythm as pr

RUNTIMES: dict[str, Callable[[Any], Any]] = {
    "files": lambda spark: pr.Processes(),
    "engine": lambda spark: pr.launchers.Spark(session=spark),
}


def session(workers: int) -> Any:
    """A cluster of two executors on this machine, or of one for each worker."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONWARNINGS": "default"}
    builder = SparkSession.builder.master(f"local-cluster[{max(2, workers)},1,1024]").appName("rows")
    settings = {
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
        "spark.executorEnv.OMP_NUM_THREADS": "1", "spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR",
    }  # fmt: skip
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def member(batches: Iterator[Any], workers: int, port: int, directory: str) -> Iterator[Any]:
    """One worker, in a barrier task: `batches` are the record batches of its partition."""
    import pyarrow
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    place(context.partitionId(), workers, port)
    worker = pr.join("allreduce", seed=1)
    count = train(worker, pr.sources.LocalShard(batches, keep=directory), directory)
    worker.barrier()
    yield pyarrow.record_batch({"batches": [count]})


def heap(spark: Any) -> float:
    """Megabytes that the driver's Java process holds, garbage left out."""
    java = spark._jvm.java.lang
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return (runtime.totalMemory() - runtime.freeMemory()) / 2**20


def main(way: str, workers: int) -> dict[str, Any]:
    spark = session(workers)
    try:
        with tempfile.TemporaryDirectory() as directory:
            ids = spark.range(ROWS, numPartitions=8)
            columns = [(F.col("id") % 97 / 97.0).alias("x"), (F.col("id") % 2).cast("int").alias("label")]
            ids.select("id", *columns).write.parquet(f"{directory}/table")
            frame = spark.read.parquet(f"{directory}/table")
            port, before, held, begun = free_port(), resident(), heap(spark), time.monotonic()
            if way in RUNTIMES:
                source = pr.sources.spark_frame(frame.filter("id >= 0"), f"{directory}/rows")
                pr.run(partial(train, source=source, directory=directory), workers=workers, seed=1, on=RUNTIMES[way](spark))
            else:
                tasks = frame.repartition(workers)
                go = partial(member, workers=workers, port=port, directory=directory)
                tasks.mapInArrow(go, "batches long", barrier=True).collect()
            seconds, after = time.monotonic() - begun, resident()
            return {
                "way": way, "workers": workers, "rows": ROWS, "epochs": EPOCHS, "seconds": round(seconds, 1), "once": once(directory),
                "driver_growth_mb": round(after - before, 1), "driver_heap_growth_mb": round(heap(spark) - held, 1),
            }  # fmt: skip
    finally:
        spark.stop()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
