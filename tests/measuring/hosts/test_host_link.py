"""Agents on this machine: nothing of them is left when a calibration fails or ends, and the port where they meet is held."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from polyrhythm.errors import RunError
from polyrhythm.tools.measuring.hosts import host_link
from polyrhythm.tools.measuring.hosts.host_list import hosts_typed
from polyrhythm.tools.measuring.hosts.host_messages import OpenMeeting, TimeSteps
from polyrhythm.tools.measuring.hosts.host_survey import HostSurvey
from polyrhythm.tools.measuring.hosts.survey_agent import open_meeting
from polyrhythm.tools.measuring.links import unfollowed

STUBBORN = """#!/usr/bin/env python3
import json, os, signal, subprocess, sys, time
from pathlib import Path
child = subprocess.Popen(["sleep", "1000"])  # it keeps our standard error open
Path(__file__).with_name("pids").write_text(f"{os.getpid()} {child.pid}")
versions = {"polyrhythm": os.environ["VERSION"], "python": "3", "torch": "2"}
print(json.dumps({"type": "HostHello", "versions": versions, "memory": 8e9}), flush=True)
sys.stdin.readline()
print(json.dumps({"type": "SurveyFailed", "sentence": "The data are not there."}), flush=True)
if "%s" == "stays":
    while True:
        time.sleep(1)
"""


@pytest.mark.parametrize("what", ["stays", "ends"])
def test_nothing_of_an_agent_on_this_machine_is_left_when_it_fails(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polyrhythm.core.records.outcome import versions

    monkeypatch.setenv("VERSION", versions()["polyrhythm"])
    monkeypatch.setattr(host_link, "_ENDING_SECONDS", 0.2)
    program = tmp_path / "python"
    program.write_text(STUBBORN % what)
    program.chmod(0o755)
    file = tmp_path / "hosts.toml"
    file.write_text(f'[[hosts]]\nhost = "here"\npython = "{program}"\n')
    before = time.monotonic()
    with pytest.raises(RunError, match="The data are not there"):
        HostSurvey(hosts_typed(str(file)), lambda line: None, unfollowed).measure(TimeSteps("digits-cnn"))
    assert time.monotonic() < before + 10
    left = list(map(int, (tmp_path / "pids").read_text().split()))
    while any(map(_lives, left)) and time.monotonic() < before + 10:
        time.sleep(0.01)  # a killed process takes a moment to end
    assert not any(map(_lives, left))


def _lives(pid: int) -> bool:
    """True if the process runs: one that has ended may wait for somebody to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_port_of_a_meeting_is_held_from_when_the_others_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLYRHYTHM_SECRET", "POLYRHYTHM_HOST_ADDR"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # what the agent sets goes with the test
    opened = open_meeting(OpenMeeting(2, "127.0.0.1", "ab" * 16, "127.0.0.1"))
    try:
        assert opened.port > 0
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", opened.port))
    finally:
        opened.server.close()
