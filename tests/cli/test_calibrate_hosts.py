"""`polyrhythm calibrate --hosts` as a person types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from host_programs import agent as agent
from host_programs import ssh as ssh
from polyrhythm.hardware import devices, network
from polyrhythm.hardware.fleet import fleet


def test_files_are_written_that_name_the_hosts(polyrhythm: Any, tiny: Path, tmp_path: Path, ssh: str, agent: Path) -> None:
    out = tmp_path / "mine"
    hosts = ("--hosts", "ann@desktop:2222,laptop", "--ssh", ssh, "--python", agent)
    result = polyrhythm("calibrate", tiny, *hosts, "--set", "epochs=3", "--out", out)
    assert result.code == 0
    assert "desktop: 2 GFLOPS, and 1 ms for each step besides; 6 GB of memory for a worker" in result.out
    assert f"wrote {out / 'device.json'}, for --devices, and a file beside it for each machine" in result.err
    people = fleet(out)
    assert [(people.machine(k).name, people.terms_of(k).memory) for k in (0, 1)] == [("desktop", 6e9), ("laptop", 6e9)]
    assert devices.load(out / "laptop.json").name == "laptop"
    assert [site.name for site in network.load(out).sites] == ["desktop", "laptop"]
    order = json.loads((tmp_path / "laptop.orders").read_text().splitlines()[0])
    assert (order["job"], order["source"], order["settings"]) == ("job.py", tiny.read_text(), {"epochs": "3"})


def test_that_one_host_has_no_network_is_said(polyrhythm: Any, tmp_path: Path, ssh: str, agent: Path) -> None:
    command = ("calibrate", "digits-cnn", "--hosts", "desktop", "--ssh", ssh, "--python", agent, "--out", tmp_path / "mine")
    result = polyrhythm(*command)
    assert result.code == 0
    assert "one host has no lines to others, so no network.json was written: name a network" in result.err
    assert sorted(each.name for each in (tmp_path / "mine").iterdir()) == ["desktop.json", "device.json"]
    (tmp_path / "mine" / "network.json").write_text("{}")
    assert "network.json is of an earlier calibration" in polyrhythm(*command).err


def test_json_has_each_machine(polyrhythm: Any, ssh: str, agent: Path) -> None:
    result = polyrhythm("calibrate", "digits-cnn", "--hosts", "desktop,laptop", "--ssh", ssh, "--python", agent, "--json")
    found = json.loads(result.out)
    assert [each["name"] for each in found["devices"]] == ["desktop", "laptop"]
    assert found["links"][0]["from"] == "desktop"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--ssh", "ssh -v"), "--ssh is for hosts that are reached over SSH, and none was given"),
        (("--python", "x"), "--python is for hosts"),
        (("--hosts", "a:b:c"), "'a:b:c' is no host"),
        (("--hosts", "a", "--steps", "3"), "--steps needs a JOB"),
        (("digits-cnn", "--hosts", "a", "--option", "x=1"), "--option needs a --system"),
        (("digits-cnn", "--hosts", "a", "--steps", "0"), "--steps 0"),
        (("digits-cn", "--hosts", "a"), "digits-cnn"),
    ],
)
def test_what_cannot_be_is_refused_before_a_host_is_asked(polyrhythm: Any, arguments: tuple[str, ...], words: str) -> None:
    result = polyrhythm("calibrate", *arguments)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert words in result.err


@pytest.mark.long
def test_agents_time_steps_and_measure_their_lines(polyrhythm: Any, tiny: Path, tmp_path: Path, ssh: str) -> None:
    out = tmp_path / "mine"
    hosts = ("--hosts", "desktop,laptop", "--ssh", ssh, "--python", sys.executable)
    result = polyrhythm("calibrate", tiny, *hosts, "--set", "epochs=1000", "--steps", 3, "--out", out)
    assert result.code == 0, result.err
    assert "desktop: the user prints" in result.err
    assert [fleet(out).machine(k).name for k in (0, 1)] == ["desktop", "laptop"]
    assert network.load(out).capacity[0][1] > 0
    again = polyrhythm("run", tiny, "--on", "simulator", "--network", out, "--device", out, "--workers", 2, "--json")
    assert json.loads(again.out)["virtual_seconds"] > 0


@pytest.mark.long
def test_nothing_is_left_on_a_host_when_the_calibration_is_interrupted(tiny: Path, tmp_path: Path, ssh: str) -> None:
    (tmp_path / "there").mkdir()
    hosts = ("--hosts", "desktop,laptop", "--ssh", ssh, "--python", sys.executable)
    command = [sys.executable, "-m", "polyrhythm", "calibrate", str(tiny), *hosts, "--set", "epochs=1000000", "--steps", "1000000"]
    started = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path / "there")}, stderr=subprocess.PIPE, text=True)
    assert started.stderr is not None
    try:
        while "the user prints" not in started.stderr.readline():
            pass
        assert _agents(tmp_path)
        started.send_signal(signal.SIGINT)
        assert started.wait(30) == 130
        deadline = time.monotonic() + 20
        while _agents(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        started.kill()
        started.stderr.close()
    assert not _agents(tmp_path)
    assert not list((tmp_path / "there").glob("polyrhythm-*"))


def _agents(tmp_path: Path) -> list[str]:
    """The processes whose temporary files are in this test's directory: the agents, and what they started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            environment = (each / "environ").read_bytes()
        except OSError:
            continue
        if f"TMPDIR={tmp_path / 'there'}".encode() in environment:
            found.append(each.name)
    return found
