"""Faults as typed text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyrhythm import hardware
from polyrhythm.errors import CompositionError, PolyrhythmError, UnknownNameError
from polyrhythm.hardware.faults import FaultSource
from polyrhythm.tools.cli.faults import _EXAMPLES, KINDS, faults, parse

from .conftest import Command

SIDES = (("worker/0", "worker/1"), ("worker/2",), ("server/0",))
GIVEN: list[tuple[str, FaultSource]] = [
    ("crash worker/1 step 20", hardware.Crash("worker/1", step=20)),
    ("crash worker/1 20", hardware.Crash("worker/1", 20.0)),
    ("exit first status 3 at 0.5", hardware.Exit("first", 3, 0.5)),
    ("stall worker/1 at 3 for 2", hardware.Stall("worker/1", 3.0, 2.0)),
    ("hold-gil worker/1 duration 2 step 4", hardware.HoldGIL("worker/1", duration=2.0, step=4)),
    ("kill-while-writing", hardware.KillWhileWriting()),
    ("join at 3 site Tokyo", hardware.Join(3.0, site="Tokyo")),
    ("disconnect site/Tokyo host/3 at 1", hardware.Disconnect("site/Tokyo", "host/3", 1.0)),
    ("partition worker/0,worker/1 worker/2 server/0 at 3 for 2", hardware.Partition(SIDES, 3.0, 2.0)),
    ("drop 0.1 between worker/0,worker/1", hardware.Drop(0.1, ("worker/0", "worker/1"))),
    ("random-crashes rate-per-step 0.1 horizon 50", hardware.RandomCrashes(rate_per_step=0.1, horizon=50.0)),
    ("preemptions 0.5 notice 30 back-after 300", hardware.Preemptions(0.5, 30.0, 300.0)),
    ("trace spot-bursty speed 60", hardware.Trace("spot-bursty", 60.0)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), GIVEN)
def test_a_text_is_a_fault(text: str, fault: FaultSource) -> None:
    assert parse(text) == fault


def test_every_fault_has_a_kind_and_every_example_is_one() -> None:
    named = {name for name in dir(hardware) if hasattr(getattr(hardware, name), "expand") or hasattr(getattr(hardware, name), "what")}
    assert {kind.__name__ for kind in KINDS.values()} == named | {"Drop", "DatagramFaults"}
    for kind, example in _EXAMPLES.items():
        assert type(parse(example)) is KINDS[kind]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("crsh worker/1 at 3", r"No fault is called 'crsh'\. Did you mean 'crash'\?"),
        ("", "No fault is called ''"),
        ("stall worker/1 at 3 fro 2", r"No setting of stall is called 'fro'\. Did you mean 'for'\?"),
        ("crash worker/1 at", "ends after 'at': give a value after it"),
        ("crash at 3", r"'crash at 3' lacks its actor: write such as 'crash worker/1 step 20'"),
        ("crash worker/1", "either at=SECONDS or step=STEPS"),
        ("crash worker/1 step soon", "step must be a whole number or none"),
        ("drop 0.1 between worker/0", "is not about a pair of places"),
    ],
)
def test_a_text_that_is_no_fault_is_refused_with_a_remedy(text: str, message: str) -> None:
    with pytest.raises(PolyrhythmError, match=message):
        parse(text)


def test_a_file_has_a_fault_in_each_line(tmp_path: Path) -> None:
    file = tmp_path / "faults.txt"
    file.write_text("# two\n\ncrash worker/1 step 2\n  stall first at 1 for 1\n")
    assert faults(["crash worker/0 at 1"], file) == (
        hardware.Crash("worker/0", 1.0),
        hardware.Crash("worker/1", step=2),
        hardware.Stall("first", 1.0, 1.0),
    )
    with pytest.raises(CompositionError, match=r"--faults .* cannot be read"):
        faults([], tmp_path / "none")
    file.write_text("crash\n")
    with pytest.raises((CompositionError, UnknownNameError), match="lacks its actor"):
        faults([], file)


def test_a_run_has_the_faults_in_both_runtimes(polyrhythm: Command, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("stall first at 0.001 for 0.01\n")
    for on in ("simulator", "processes"):
        options = [
            "--system",
            "strom",
            "--workers",
            3,
            "--on",
            on,
            "--fault",
            "crash worker/2 step 2",
            "--faults",
            tmp_path / "f",
            "--json",
        ]
        done = polyrhythm("run", tiny, *options)
        assert done.code == 0, done.err
        assert json.loads(done.out)["lost"] == ["worker/2"]


def test_faults_that_cannot_be_are_refused_before_the_run(polyrhythm: Command, tiny: Path) -> None:
    done = polyrhythm("run", tiny, "--on", "simulator", "--fault", "crash worker/7 step 2")
    assert done.code != 0
    assert "No actor is called 'worker/7'" in done.err
    done = polyrhythm("run", tiny, "--on", "torchrun", "--fault", "crash worker/1 step 2")
    assert done.code == 2
    assert "leave out --fault and --faults" in done.err
