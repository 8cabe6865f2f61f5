"""The page "Two models on one box": its files and commands, as a new user runs them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "serving-on-ray.md").read_text(encoding="utf-8")
FILE = re.compile(r"^```\w+ file=(?P<file>\S+)(?: alone)?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_the_page_is_true(tmp_path: Path) -> None:
    for found in FILE.finditer(PAGE):
        (tmp_path / found["file"]).write_text(found["body"])
    commands = [shlex.split(line[2:]) for line in PAGE.splitlines() if line.startswith("$ polyrhythm")]
    profile, run, load = ([sys.executable, "-m", "polyrhythm", *words[1:]] for words in commands)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    subprocess.run(profile, cwd=tmp_path, env=environment, check=True, timeout=200)
    with subprocess.Popen(run, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            until = time.monotonic() + 200
            while not ready("http://127.0.0.1:8000") and time.monotonic() < until and server.poll() is None:
                time.sleep(0.5)
            done = subprocess.run(load, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=100)
            ask = subprocess.run([sys.executable, "ask.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        finally:
            server.send_signal(signal.SIGINT)
            out, said = server.communicate(timeout=100)
    assert "pages" in done.stdout
    assert "ok" in done.stdout
    assert ask.stdout.startswith(("ok [", "late [")) or "503" in ask.stderr, ask.stderr
    assert "duty cycle" in out
    assert "draining: what was taken is answered" in said
    assert said.rstrip().endswith("polyrhythm: ended")
    assert server.returncode == 0
