"""Rows of a Ray data set at the workers of a run, each an actor: `python engine_tests/sources/ray_rows.py WORKERS [WAY]` prints figures.

With `own` each worker is given its iterator alone, as `ray.train.get_dataset_shard` gives it in Ray Train; with `engine` the actors are
those of `pr.launchers.Ray`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import ray
from seen import EPOCHS, ROWS, free_port, once, place, resident, train

import polyrhythm as pr


@ray.remote(num_cpus=1)
class Member:
    """One worker."""

    def go(self, rank: int, workers: int, port: int, source: Any, directory: str) -> int:
        """Join and train."""
        place(rank, workers, port)
        worker = pr.join("allreduce", seed=1)
        return train(worker, source, directory)


def rows(batch: dict[str, Any]) -> dict[str, Any]:
    """Columns beside the ids."""
    return {"id": batch["id"], "x": (batch["id"] % 97) / 97.0, "label": (batch["id"] % 2).astype("int32")}


def main(workers: int, way: str = "join") -> dict[str, Any]:
    ray.init(
        num_cpus=workers + 2, include_dashboard=False, _node_ip_address="127.0.0.1", object_store_memory=300_000_000, log_to_driver=False
    )
    try:
        data = ray.data.range(ROWS, override_num_blocks=40).map_batches(rows, batch_format="numpy")
        with tempfile.TemporaryDirectory() as directory:
            source = pr.sources.RayShards.of(data, workers)
            before, begun = resident(), time.monotonic()
            if way == "engine":
                steps = pr.run(
                    partial(train, source=source, directory=directory), workers=workers, seed=1, on=pr.launchers.Ray()
                ).summary.steps
                batches = [steps] * workers
            else:
                members, port = [Member.remote() for _ in range(workers)], free_port()
                given = source.iterators if way == "own" else [source] * workers
                batches = ray.get([member.go.remote(rank, workers, port, given[rank], directory) for rank, member in enumerate(members)])
            seconds, after = time.monotonic() - begun, resident()
            return {
                "workers": workers, "rows": ROWS, "epochs": EPOCHS, "seconds": round(seconds, 1), "once": once(directory),
                "batches": batches, "driver_growth_mb": round(after - before, 1),
            }  # fmt: skip
    finally:
        ray.shutdown()


if __name__ == "__main__":
    ray.data.DataContext.get_current().enable_progress_bars = False
    print(json.dumps(main(int(sys.argv[1]), *sys.argv[2:])))
