"""`networks`, `workloads`, `--version`, `--help`: what can be asked before anything is run."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from typing import Any

from polyrhythm.hardware.presets import PRESETS
from polyrhythm.workloads import WORKLOADS


def test_networks_are_listed_with_their_sources(polyrhythm: Any) -> None:
    told = polyrhythm("networks")
    assert told.code == 0
    assert "Hsieh et al., NSDI 2017" in told.out
    listed = json.loads(polyrhythm("networks", "--json").out)
    assert [each["name"] for each in listed] == list(PRESETS)
    assert all(each["source"] for each in listed)


def test_networks_are_listed_without_waiting_for_torch() -> None:
    code = "import sys, polyrhythm.cli.networks as it; it.networks(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_workloads_are_listed_with_their_settings(polyrhythm: Any) -> None:
    assert "--set epochs=" in polyrhythm("workloads").out
    listed = json.loads(polyrhythm("workloads", "--json").out)
    assert [each["name"] for each in listed] == list(WORKLOADS)
    assert all(each["settings"] for each in listed)


def test_the_version_is_told(polyrhythm: Any) -> None:
    assert polyrhythm("--version").out == f"polyrhythm {version('polyrhythm')}\n"


def test_help_names_every_command(polyrhythm: Any) -> None:
    told = polyrhythm("--help")
    assert told.code == 0
    assert all(command in told.out for command in ("systems", "run", "compare", "report", "networks", "workloads"))


def test_a_misspelt_command_is_answered_with_the_nearest(polyrhythm: Any) -> None:
    told = polyrhythm("compre")
    assert told.code == 2
    assert "Did you mean 'compare'" in told.err


def test_a_misspelt_option_is_answered_with_the_nearest(polyrhythm: Any) -> None:
    told = polyrhythm("run", "digits-cnn", "--sytem", "ssp")
    assert told.code == 2
    assert "--system" in told.err
