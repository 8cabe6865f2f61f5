"""Hosts without ssh and without measurements: a command in the place of ssh, and a program in the place of an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

SSH = """#!/bin/sh
# takes ssh's options, the host, and a line for the shell there, which is that of this machine
while true; do case "$1" in -T) shift;; -o|-p|-i) shift 2;; *) break;; esac; done
case "$1" in
    *lost*) echo "ssh: Could not resolve hostname $1: Name or service not known" >&2; exit 255;;
    *strange*) echo "Host key verification failed." >&2; exit 255;;
esac
export HOST_NAME="$1"
echo "Welcome to $1!"
exec sh -c "$2"
"""
AGENT = """#!/usr/bin/env python3
import json, os, sys
from pathlib import Path
name = os.environ["HOST_NAME"].rpartition("@")[2]
here = Path(__file__).parent
say = lambda kind, **news: print(json.dumps({"type": kind, **news}), flush=True)
polyrhythm = "0.0.1" if name == "old" else os.environ["VERSION"]
versions = {"polyrhythm": polyrhythm, "python": "3.11.2", "torch": "2.4" if name == "apart" else "2.5"}
say("HostHello", versions=versions, memory=8e9, address="10.0.0.7", caller="10.0.0.1")
sites = [{"name": f"host-{k}", "egress": 1e6 * (k + 1)} for k in range(2)]
network = {"name": "measured", "sites": sites, "links": [{"from": "host-0", "to": "host-1", "latency": 0.01, "bandwidth": 1e6}]}
for line in sys.stdin:
    order = json.loads(line)
    with (here / f"{name}.orders").open("a") as kept:
        kept.write(line)
    kind = order["type"]
    if kind == "TimeSteps" and name == "broken":
        say("SurveyFailed", sentence="The data are not there.")
    elif kind == "TimeSteps" and name == "dying":
        sys.exit("out of memory")
    elif kind == "TimeSteps":
        print("the job prints", file=sys.stderr)
        say("StepsTimed", device={"name": "this machine", "flops": 2e9, "overhead_seconds": 0.001})
    elif kind == "TimeWithin":
        say("WithinTimed", latency=1e-5, bandwidth=1e9)
    elif kind == "OpenMeeting":
        say("MeetingOpened", port=4000)
    elif kind == "MeetOthers":
        say("LinksMeasured", network="" if order["rank"] else json.dumps(network))
(here / f"{name}.ended").touch()
"""


@pytest.fixture
def ssh(tmp_path: Path) -> str:
    """A command that is called as ssh is, and stays on this machine."""
    return str(_program(tmp_path / "ssh", SSH))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is called as Python on the hosts is, and says what an agent says, as different as the host's name has it."""
    from polyrhythm.core.records.outcome import versions

    monkeypatch.setenv("VERSION", versions()["polyrhythm"])
    return _program(tmp_path / "python", AGENT)


def _program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path
