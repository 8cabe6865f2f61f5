"""Comparisons whose runs are made on a Ray cluster."""

import os
import subprocess
import sys
from pathlib import Path

COMPARE = "compare digits-mlp --systems allreduce,ssp --network slow --workers 3 --seeds 0,1 --set epochs=1 --quiet --jobs 2"


def compared(place: str, out: Path) -> dict[str, bytes]:
    """The events and weights of each run, by their paths below `out`."""
    command = [sys.executable, "-m", "polyrhythm", *COMPARE.split(), "--jobs-on", place, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300)
    assert done.returncode == 0, done.stderr
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.suffix in {".jsonl", ".safetensors"}}


def test_runs_on_a_cluster_leave_the_bytes_of_runs_on_this_host(tmp_path: Path) -> None:
    here, there = compared("host", tmp_path / "here"), compared("ray", tmp_path / "there")
    assert len(here) == 8
    assert there == here
