"""A million rows of a Spark DataFrame and of a Ray data set are each seen once an epoch, and none of them goes through the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MOST_GROWTH_MB = 100


def figures(script: str, *arguments: object) -> dict[str, Any]:
    """What the script prints at its end."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, str(HERE / script), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(measured)
    return measured


@pytest.mark.parametrize(("workers", "form"), [(2, ()), (3, ("own",)), (3, ("engine",))])
def test_every_row_of_a_ray_data_set_is_seen_once_an_epoch(workers: int, form: tuple[str, ...]) -> None:
    measured = figures("ray_rows.py", workers, *form)
    assert measured["once"] == [True, True]
    assert len(set(measured["batches"])) == 1
    assert measured["driver_growth_mb"] < MOST_GROWTH_MB


@pytest.mark.parametrize(("way", "workers"), [("files", 2), ("partitions", 2), ("partitions", 3), ("engine", 3)])
def test_every_row_of_a_spark_data_frame_is_seen_once_an_epoch(way: str, workers: int) -> None:
    measured = figures("spark_rows.py", way, workers)
    assert measured["once"] == [True, True]
    assert measured["driver_growth_mb"] < MOST_GROWTH_MB
    assert measured["driver_heap_growth_mb"] < MOST_GROWTH_MB
