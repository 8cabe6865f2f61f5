"""SIGTERM ends a run on Ray as it ends one anywhere: with its exit code, a line, a record, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

from marked_processes import MARK, left

SCRIPT = """
import time
from pathlib import Path

import torch

import polyrhythm as pr


def train(worker):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    worker.attach(model, optimizer)
    for (x,) in worker.batches((torch.ones(10_000, 1),), 1):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        Path("FOLDER/begun").touch()
        time.sleep(0.01)


pr.run(train, workers=1, on=pr.launchers.Ray(), directory="record")
"""


def test_sigterm_stops_a_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace("FOLDER", str(tmp_path)))
    mark = uuid4().hex
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", MARK: mark}
    words = [sys.executable, "script.py"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 120
        while not (tmp_path / "begun").exists() and time.monotonic() < until and running.poll() is None:
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM, said
    assert "stopped by SIGTERM" in said
    assert "SIGTERM received" not in said
    assert "SIGTERM" in (tmp_path / "record" / "run.json").read_text()
    assert left(mark) == []
