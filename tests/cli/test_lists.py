"""`networks`, `workloads`, `--version`, `--help`: what can be listed before anything is run."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.hardware.devices import DEVICES
from polyrhythm.hardware.presets import PRESETS
from polyrhythm.systems import SYSTEMS
from polyrhythm.systems.declaration import also_called
from polyrhythm.tools import cli
from polyrhythm.tools.cli.app import app
from polyrhythm.tools.cli.complete import (
    complete_devices,
    complete_jobs,
    complete_networks,
    complete_systems,
    option_names,
    system_names,
    workload_names,
)
from polyrhythm.workloads import WORKLOADS


def test_networks_are_listed_with_their_sources(polyrhythm: Any) -> None:
    result = polyrhythm("networks")
    assert result.code == 0
    assert "Hsieh et al., NSDI 2017" in result.out
    listed = json.loads(polyrhythm("networks", "--json").out)
    assert [each["name"] for each in listed] == list(PRESETS)
    assert all(each["source"] for each in listed)


def test_networks_are_listed_without_waiting_for_torch() -> None:
    code = "import sys, polyrhythm.tools.cli.networks as it; it.networks(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_devices_are_listed_with_their_sources(polyrhythm: Any) -> None:
    result = polyrhythm("devices")
    assert result.code == 0
    assert "cpu-core: 24 GFLOPS sustained, and 500 µs for every step" in result.out
    assert "A100 datasheet" in result.out
    listed = json.loads(polyrhythm("devices", "--json").out)
    assert [each["name"] for each in listed] == list(DEVICES)
    assert all(each["source"] for each in listed)
    assert listed[0]["flops"] == DEVICES["cpu-core"].flops


def test_what_a_shell_completes_is_what_there_is() -> None:
    assert set(system_names()) == set(SYSTEMS)
    assert set(workload_names()) == set(WORKLOADS)
    assert complete_systems("s") == sorted(name for name in SYSTEMS if name.startswith("s"))
    assert "ssp,sparknet" in complete_systems("ssp,s")
    assert "ssp,ssp" not in complete_systems("ssp,s")
    assert complete_jobs("dig") == [name for name in WORKLOADS if name.startswith("dig")]
    assert complete_networks("wan") == ["wan-3", "wan-11"]
    assert "cuda" in complete_devices("c")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("tra", ["train.py", "training/"]),
        ("./", ["./train.py", "./training/"]),
        ("./tra", ["./train.py", "./training/"]),
        ("training/", ["training/job.py"]),
        (".//training/j", [".//training/job.py"]),
        ("training/../tr", ["training/../train.py", "training/../training/"]),
        ("none/", []),
    ],
)
def test_what_was_typed_of_a_path_stays(typed: str, completed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "training").mkdir()
    for name in ("train.py", "training/job.py", "notes.txt"):
        (tmp_path / name).touch()
    assert complete_jobs(typed) == completed
    assert complete_jobs(f"{tmp_path}/{typed}") == [f"{tmp_path}/{each}" for each in completed]


OPTIONS = (
    ("run x --system diloco --option pe", "period="),
    ("run x --system diloco --option ta", "tau="),
    ("compare x --systems ssp,diloco --option ser", "servers="),
)


def test_options_are_completed_by_their_own_names_with_those_in_papers() -> None:
    for name, system in SYSTEMS.items():
        assert option_names(name) == {option: also_called(system, option) for option in inspect.signature(system).parameters}
    assert option_names("none") == {}


def test_a_shell_completes_names_and_files_without_waiting_for_torch(tmp_path: Path) -> None:
    (tmp_path / "digits.py").touch()
    for words, expected in (("run dig", "digits.py"), ("run dig", "digits-cnn"), ("compare x --systems ssp,tr", "ssp,tree"), *OPTIONS):
        environment = {
            **os.environ,
            "_POLYRHYTHM_COMPLETE": "complete_bash",
            "COMP_WORDS": f"polyrhythm {words}",
            "COMP_CWORD": str(len(words.split())),
        }
        code = (
            "import sys; from polyrhythm.tools.cli.app import app\n"
            "try: app(prog_name='polyrhythm')\nfinally: assert 'torch' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert expected in done.stdout.split(), done


def test_workloads_are_listed_with_their_settings(polyrhythm: Any) -> None:
    assert "--set epochs=" in polyrhythm("workloads").out
    listed = json.loads(polyrhythm("workloads", "--json").out)
    assert [each["name"] for each in listed] == list(WORKLOADS)
    assert all(each["settings"] for each in listed)


def test_the_version_is_reported(polyrhythm: Any) -> None:
    assert polyrhythm("--version").out == f"polyrhythm {version('polyrhythm')}\n"


def test_help_and_the_package_name_every_command(polyrhythm: Any) -> None:
    result = polyrhythm("--help")
    assert result.code == 0
    names = [command.callback.__name__ for command in app.registered_commands if command.callback is not None]
    assert len(names) > 9
    for name in names:
        assert f"│ {name} " in result.out
        assert f"`{name}`" in (cli.__doc__ or "").replace("polyrhythm ", "") or name in ("reproduce", "validate")  # of another distribution


def test_a_misspelt_command_is_refused_with_the_nearest(polyrhythm: Any) -> None:
    result = polyrhythm("compre")
    assert result.code == 2
    assert "Did you mean 'compare'" in result.err


def test_a_misspelt_option_is_refused_with_the_nearest(polyrhythm: Any) -> None:
    result = polyrhythm("run", "digits-cnn", "--sytem", "ssp")
    assert result.code == 2
    assert "--system" in result.err
