"""`polyrhythm join`: processes that something else has started."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

RAISES = """
def train(worker):
    if worker.rank == 1:
        raise ValueError("no data here")
    worker.barrier()
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _joined(*arguments: object, workers: int = 2) -> Sequence[tuple[int, str, str]]:
    """What the workers printed, each in a process of its own, and how they ended."""
    shared = {**os.environ, "WORLD_SIZE": str(workers), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    command = [sys.executable, "-m", "polyrhythm", "join", *map(str, arguments)]
    started = [
        subprocess.Popen(
            command, env={**shared, "RANK": str(rank)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(workers)
    ]
    outputs = [process.communicate(timeout=120) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, outputs, strict=True)]


def test_workers_that_were_started_one_by_one_end_with_the_weights_of_a_run(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first, second = _joined(tiny, "--set", "epochs=3", "--seed", 5, "--json", "--out", out)
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    assert second[1] == ""
    result = json.loads(first[1])
    run = json.loads(polyrhythm("run", tiny, "--set", "epochs=3", "--seed", 5, "--json").out)
    assert (result["weights_sha256"], result["final"], result["steps"]) == (run["weights_sha256"], run["final"], run["steps"])
    assert first[2].count("the user prints 3") == 1
    assert "polyrhythm report" in first[2]
    assert sorted(each.name for each in out.iterdir()) == ["worker-0", "worker-1"]


@pytest.mark.long
def test_a_worker_that_raises_ends_the_others_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(RAISES)
    first, second = _joined(tmp_path / "job.py")
    assert (first[0], second[0]) == (1, 1)
    assert "worker/1" in first[2]
    assert "no data here" in first[2]
    assert "ValueError: no data here" in second[2]
    assert [line.split('"')[1] for line in second[2].splitlines() if line.startswith("  File ")] == [str(tmp_path / "job.py")]


def test_what_cannot_be_run_is_refused_before_anybody_is_waited_for(tiny: Path) -> None:
    for code, _, errors in _joined(tiny, "--set", "speed=3"):
        assert code == 2
        assert "speed" in errors
