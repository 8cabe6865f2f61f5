"""How `polyrhythm serve run` ends by a signal: what was taken is answered, newcomers are refused, and no process stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from marked_processes import MARK, left, marked

from polyrhythm.serving import LatencyProfile
from polyrhythm.serving.serving_files import write_profiles

MODELS = """
[[models]]
name = "slow"
emulated = true
input = [4]
[[sessions]]
name = "slowly"
model = "slow"
slo = "6 s"
rate = 2
"""
SITE = """
[[machines]]
name = "box"
kind = "box"
memory = "4 GB"
"""
BODY = json.dumps({"inputs": [{"name": "x", "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}).encode()
PORT = 8219


def posted(url: str) -> int | None:
    """The status of a request; None where nothing listens."""
    asked = urllib.request.Request(f"{url}/v2/models/slowly/infer", BODY, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as problem:
        return problem.code
    except OSError:
        return None


def ready(url: str) -> int | None:
    try:
        with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as problem:
        return problem.code
    except OSError:
        return None


@contextmanager
def server(folder: Path, mark: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "models.toml").write_text(MODELS)
    (folder / "site.toml").write_text(SITE)
    write_profiles(folder / "profiles.json", [LatencyProfile("slow", "box", (1.5,) * 8, (1,) * 8)])
    words = [sys.executable, "-m", "polyrhythm", "serve", "run", "models.toml", "--machines", "site.toml", "--port", str(PORT)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", MARK: mark}
    with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_drains(tmp_path: Path, number: signal.Signals) -> None:
    mark = uuid4().hex
    url = f"http://127.0.0.1:{PORT}"
    answered: list[int | None] = []
    with server(tmp_path, mark) as running:
        until = time.monotonic() + 120
        while ready(url) != 200 and time.monotonic() < until and running.poll() is None:
            time.sleep(0.2)
        asked = threading.Thread(target=lambda: answered.append(posted(url)))
        asked.start()
        time.sleep(0.5)
        running.send_signal(number)
        time.sleep(0.3)
        newcomers, health = [], []
        while running.poll() is None:
            newcomers.append(posted(url))
            health.append(ready(url))
            time.sleep(0.02)
        asked.join()
        _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert "draining: what was taken is answered" in said
    assert said.rstrip().endswith("polyrhythm: ended")
    assert "SIGTERM received" not in said
    assert answered == [200]
    first_refused = next((place for place, each in enumerate(newcomers) if each is None), len(newcomers))
    assert set(newcomers[:first_refused]) == {503}, newcomers
    assert set(newcomers[first_refused:]) <= {None}, newcomers
    assert 200 not in health
    assert left(mark) == []


@pytest.mark.parametrize("started", ["gcs_server", "raylet", "ServeController"])
def test_a_signal_while_ray_starts_ends_all(tmp_path: Path, started: str) -> None:
    mark = uuid4().hex
    with server(tmp_path, mark) as running:
        until = time.monotonic() + 120
        while not any(started in each for each in marked(mark)) and time.monotonic() < until and running.poll() is None:
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM, said
    assert "stopped by SIGTERM" in said
    assert "SIGTERM received" not in said
    assert left(mark) == []
