"""`polyrhythm calibrate` as a person types it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ports import reserved_port

from polyrhythm.errors import RunError
from polyrhythm.hardware import devices, network
from polyrhythm.tools.measuring import links


def test_a_step_is_timed_and_written_where_the_simulator_reads_it(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    result = polyrhythm("calibrate", tiny, "--set", "epochs=1000", "--workers", 2, "--steps", 3, "--out", tmp_path / "here", "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert len(found["device"]["seconds_per_step"]) == 3
    assert found["local"]["alpha"] > 0
    assert found["links"] == []
    assert devices.load(tmp_path / "here" / "device.json").measured
    first, second = result.err.splitlines()
    assert first == f"polyrhythm: wrote {tmp_path / 'here' / 'device.json'}, for --device"
    assert "no network.json was written" in second
    for given in (tmp_path / "here", tmp_path / "here" / "device.json"):
        again = polyrhythm("run", tiny, "--on", "simulator", "--device", given, "--json")
        assert json.loads(again.out)["virtual_seconds"] > 0


def test_fewer_steps_than_requested_are_remarked_on(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("calibrate", tiny, "--set", "epochs=4", "--steps", 1000)
    assert result.code == 0
    assert re.fullmatch(r"polyrhythm: \d+ steps were timed of the 1000 requested, because the JOB ended: .*\n", result.err)


def test_a_person_gets_a_table(polyrhythm: Any, tiny: Path) -> None:
    result = polyrhythm("calibrate", tiny, "--set", "epochs=1000", "--steps", 3, "--system", "allreduce")
    assert result.code == 0
    for word in ("A step of", "alpha", "beta", "another of its host"):
        assert word in result.out


@pytest.mark.parametrize(
    "with_job",
    [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.long)],
    ids=["the links", "a job and the links"],
)
def test_processes_that_were_started_together_measure_what_joins_them(tmp_path: Path, tiny: Path, with_job: bool) -> None:
    out = tmp_path / "measured"
    job = [str(tiny), "--set", "epochs=1000", "--steps", "3"] if with_job else []
    command = [sys.executable, "-m", "polyrhythm", "calibrate", *job, "--out", str(out)]
    with reserved_port() as port:
        store = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        both = [subprocess.Popen(command, env=os.environ | store | {"RANK": rank}, stdout=subprocess.PIPE, text=True) for rank in "01"]
        try:
            outputs = [process.communicate(timeout=100)[0] for process in both]
        finally:
            for process in both:
                process.kill()
    assert [process.returncode for process in both] == [0, 0]
    assert "host-0" in outputs[0]
    assert outputs[1] == ""
    found = network.load(out)
    assert [site.name for site in found.sites] == ["host-0", "host-1"]
    assert found.capacity[0][1] > 0
    assert (out / "device.json").exists() == with_job


def test_a_profile_is_kept_when_the_network_cannot_be_measured(
    polyrhythm: Any, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RunError("the line is cut")

    monkeypatch.setattr(links, "local_between", fail)
    result = polyrhythm("calibrate", tiny, "--set", "epochs=1000", "--steps", 3, "--out", tmp_path / "here")
    assert result.code == 1
    assert result.err.endswith("polyrhythm: the line is cut\n")
    assert devices.load(tmp_path / "here" / "device.json").measured


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["digits-cn"], ["digits-cn", "digits-cnn"]),
        (["digits-cnn", "--workers", "0"], ["--workers 0", "1 or more"]),
        (["digits-cnn", "--system", "alreduce"], ["alreduce", "allreduce"]),
        (["digits-cnn", "--option", "period=2"], ["--option", "--system"]),
        (["--system", "nosuch"], ["--system needs a JOB whose steps are timed", "give a JOB"]),
        (["--workers", "0"], ["--workers needs a JOB whose steps are timed"]),
        (["--steps", "0"], ["--steps needs a JOB whose steps are timed"]),
        (["--seed", "3"], ["--seed needs a JOB whose steps are timed"]),
        (["--set", "a=b"], ["--set needs a JOB whose steps are timed"]),
        (["--option", "c=d"], ["--option needs a JOB whose steps are timed"]),
        (["digits-cnn", "--steps", "0"], ["--steps 0", "1 or more"]),
        (["--out", "/proc/none"], ["/proc/none", "cannot be written"]),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(polyrhythm: Any, arguments: list[str], words: list[str]) -> None:
    result = polyrhythm("calibrate", *arguments)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    for word in words:
        assert word in result.err


def test_a_rank_that_is_no_number_is_refused(polyrhythm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = polyrhythm("calibrate")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "RANK" in result.err


def test_a_script_gets_its_own_arguments(polyrhythm: Any, tiny: Path) -> None:
    tiny.write_text("import sys\nassert sys.argv[1:] == ['--mine'], sys.argv\n" + tiny.read_text())
    assert polyrhythm("calibrate", tiny, "--steps", 3, "--", "--mine").code == 0
