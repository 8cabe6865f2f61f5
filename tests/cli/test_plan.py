"""`polyrhythm plan`: what it prints, keeps and refuses."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.hardware.devices import Profile
from polyrhythm.tools.cli.calibrated import write_device

from .test_run import heed_interruptions

REQUEST = [
    "--to",
    "loss=0.02",
    "--network",
    "slow",
    "--devices",
    "cpu-core",
    "--systems",
    "allreduce,sparknet,ssp",
    "--workers",
    "2",
    "--jobs",
    "2",
]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A plan that was kept, by a process of its own, and what it printed."""
    from .conftest import TINY

    place = tmp_path_factory.mktemp("plan")
    (place / "job.py").write_text(TINY)
    write_device(place, Profile("slow", (0.05,)))
    machines = ["--device", str(place)]
    kept = ["--budget", "15s", "--out", str(place / "out")]
    command = [sys.executable, "-m", "polyrhythm", "plan", str(place / "job.py"), *REQUEST, *machines, *kept]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the user prints") == 1, done.stderr
    assert "the user prints" not in done.stdout
    return place, done.stdout


def test_the_plan_states_what_is_best_and_how_to_run_it(planned: tuple[Path, str]) -> None:
    place, printed = planned
    assert "comes to loss 0.02 first" in printed
    assert f"polyrhythm run {place / 'job.py'} --system" in printed
    assert "pr.run(pr.load_workload(" in printed


def test_the_command_that_it_prints_runs(planned: tuple[Path, str], polyrhythm: Any) -> None:
    _, printed = planned
    [line] = [line for line in printed.splitlines() if line.startswith("In virtual time: ")]
    command = shlex.split(line.removeprefix("In virtual time: "))
    assert command[0] == "polyrhythm"
    assert polyrhythm(*command[1:]).code == 0


def test_the_code_that_it_prints_runs(planned: tuple[Path, str]) -> None:
    _, printed = planned
    [line] = [line for line in printed.splitlines() if line.startswith("In Python: ")]
    code = line.removeprefix("In Python: ").strip()
    done = subprocess.run([sys.executable, "-c", f"import polyrhythm as pr\n{code}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_plan_and_its_page_are_kept(planned: tuple[Path, str]) -> None:
    place, _ = planned
    plan = json.loads((place / "out" / "plan.json").read_text())
    assert plan["choices"][0]["reached"] >= 1
    page = (place / "out" / "plan.html").read_text()
    for heading in ("The best way of each system", "If the link were another", "What is traded for what", "Ruled out"):
        assert heading in page


def test_the_same_command_takes_what_was_measured(planned: tuple[Path, str], polyrhythm: Any) -> None:
    place, _ = planned
    result = polyrhythm("plan", place / "job.py", *REQUEST, "--budget", "3s", "--device", place, "--out", place / "out", "--json")
    assert json.loads(result.out)["kept"] >= 3


def test_an_interruption_prints_what_is_known(tmp_path: Path) -> None:
    from .conftest import TINY

    (tmp_path / "job.py").write_text(TINY)
    command = [sys.executable, "-m", "polyrhythm", "plan", str(tmp_path / "job.py"), "--to", "loss=1e-9", "--network", "slow"]
    command += ["--budget", "5m", "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interruptions) as running:
        limit = time.monotonic() + 60
        while time.monotonic() < limit and len(list(tmp_path.rglob("measured/*/*.json"))) < 5:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "interrupted: what was known by then" in out
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--objective", "tme"], "time"),
        (["--objective", "money"], "--worker-hour"),
        (["--systems", "allredcue"], "allreduce"),
        (["--workers", "8..2"], "the smaller first"),
        (["--budget", "soon"], "not a duration"),
        (["--memory", "2 elephants"], "2 GB"),
        (["--set", "momentun=1"], "momentun"),
        (["--network", "sloww"], "slow"),
        (["--verify", "-1"], "--verify"),
        (["--on", "cloud"], "host"),
        (["--to", "good"], "accuracy=0.96"),
        (["--proxy", "auto"], "keyword such as width=768"),
        (["--proxy", "epochs=1"], "A family of 1 size says nothing"),
        (["--proxy", "wide=1,2,3"], "wide"),
        (["--proxy", "auto", "--verify", "2"], "leave one of them out"),
        (["--proxy", "auto", "--memory", "2GB"], "leave one of them out"),
    ],
)
def test_what_cannot_be_is_reported_at_once(tiny: Path, polyrhythm: Any, changed: list[str], message: str) -> None:
    result = polyrhythm("plan", tiny, *REQUEST, *changed)
    assert result.code == 2
    assert message in result.err


def test_without_devices_it_is_about_machines_like_this_one_and_the_command_in_virtual_time_names_them(
    polyrhythm: Any, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["--to", "loss=0.5", "--network", "slow", "--systems", "sparknet", "--workers", "2", "--budget", "3s", "--jobs", "1"]
    done = polyrhythm("plan", tiny, *words)
    assert "timing steps of" in done.err
    (kept,) = (tmp_path / "polyrhythm").glob("job-py-*/device.json")
    assert json.loads(kept.read_text())["name"] == "this machine"
    [line] = [line for line in done.out.splitlines() if line.startswith("In virtual time: ")]
    assert f"--device {kept}" in line
    assert done.err.count("the user prints") == 1, done.err


@pytest.mark.parametrize(
    ("made", "given", "why"),
    [
        (("--workers", 2), ("--device", "laptop"), "has the machines that its record shows: leave out --device laptop"),
        (("--workers", 1), (), "had one worker, and a plan compares ways of training together"),
    ],
)
def test_a_plan_from_a_run_refuses_what_its_record_does_not_answer(
    polyrhythm: Any, tiny: Path, tmp_path: Path, made: tuple[Any, ...], given: tuple[Any, ...], why: str
) -> None:
    polyrhythm("run", tiny, "--network", "lan", *made, "--out", tmp_path / "run")
    result = polyrhythm("plan", tiny, "--to", "loss=0.1", "--from", tmp_path / "run", *given)
    assert (result.code, why in " ".join(result.err.split())) == (2, True), result.err


def test_a_plan_from_the_record_of_another_job_is_refused(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(tiny.read_text())
    polyrhythm("run", other, "--network", "lan", "--out", tmp_path / "run")
    result = polyrhythm("plan", tiny, "--to", "loss=0.1", "--from", tmp_path / "run")
    assert result.code == 2
    assert "is the record of" in result.err
    assert f"give the record of a run of {tiny}" in " ".join(result.err.split())
