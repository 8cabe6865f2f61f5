"""Ordinary scripts of one process, and what they become: few lines change, and every system trains them, each worker on its own share."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyrhythm.cli.app import app
from polyrhythm.kernel.job import Runtime
from polyrhythm.processes import Processes
from polyrhythm.simulator import Simulator
from polyrhythm.training.result import Run
from polyrhythm.training.run import run
from polyrhythm.workloads.load import load

ORIGINALS = Path(__file__).parent / "originals"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class Script:
    """How many samples an epoch of it has at most, and the metric that one epoch brings above, or below, a bound."""

    samples: int
    metric: str
    least: float = float("-inf")
    most: float = float("inf")


SCRIPTS = {
    "image_classifier": Script(1437, "accuracy", least=0.5),
    "vae": Script(1500, "test", most=32.0),
    "language_model": Script(40000 // 32, "test", most=5.5),
}
SYSTEMS = ("allreduce", "ssp", "gossipgrad")


def changed(before: list[str], after: list[str]) -> int:
    """Lines that were added, taken away or are another now."""
    edits = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for kind, a, b, c, d in edits if kind != "equal")


@pytest.mark.parametrize("name", SCRIPTS)
def test_at_most_five_lines_of_a_script_change(name: str) -> None:
    before, after = ((folder / f"{name}.py").read_text(encoding="utf-8").splitlines() for folder in (ORIGINALS, EXAMPLES))
    assert 0 < changed(before, after) <= 5


def trained(name: str, system: str, on: Runtime, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("sys.argv", [f"{name}.py", "--epochs", "1"])
    return run(load(str(EXAMPLES / f"{name}.py"), {}), workers=2, strategy=system, on=on, seed=1)


def check(name: str, outcome: Run) -> None:
    script = SCRIPTS[name]
    assert 0.95 * script.samples < outcome.summary.samples <= script.samples, "all data are shared out, and nobody has all"
    assert script.least < outcome.final[script.metric] < script.most


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_system_trains_a_script_in_virtual_time(name: str, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(name, trained(name, system, Simulator(network="slow"), monkeypatch))


@pytest.mark.parametrize("name", SCRIPTS)
def test_real_processes_train_a_script_to_the_same_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, virtual = (trained(name, "allreduce", on, monkeypatch) for on in (Processes(), Simulator(network="slow")))
    check(name, real)
    assert real.summary.weights_sha256 == virtual.summary.weights_sha256


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_system_trains_a_script_on_real_processes(name: str, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(name, trained(name, system, Processes(), monkeypatch))


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_command_runs_a_script(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [f"{name}.py", "--epochs", "1"])
    told = CliRunner().invoke(app, ["run", str(EXAMPLES / f"{name}.py"), "--on", "simulator", "--json"], catch_exceptions=False)
    assert told.exit_code == 0
    assert SCRIPTS[name].metric in json.loads(told.stdout)["final"]
