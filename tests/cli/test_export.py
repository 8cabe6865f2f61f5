"""`polyrhythm export`, and `run --export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import polyrhythm as pr


@pytest.fixture
def kept(polyrhythm: Any, tiny: Path, tmp_path: Path) -> Path:
    """A run that was kept."""
    out = tmp_path / "kept"
    assert polyrhythm("run", tiny, "--set", "epochs=1", "--on", "simulator", "--out", out).code == 0
    return out


def test_a_run_becomes_a_model_with_a_report_beside_it(polyrhythm: Any, kept: Path) -> None:
    result = polyrhythm("export", kept, "--to", "onnx", "--budget", "size=1MB,latency=10s,memory=1GB", "--json")
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert (report["file"], report["target"], report["parameters"]) == ("model.onnx", "onnx", 2)
    assert report["budget"] == "size 1 MB, latency 10 s, memory 1 GB"
    assert json.loads((kept / "onnx" / "report.json").read_text()) == report
    assert pr.Predictor(kept / "onnx").inputs == {"input": ("batch", 1)}


def test_the_table_shows_what_was_written(polyrhythm: Any, kept: Path, tmp_path: Path) -> None:
    result = polyrhythm("export", kept, "--int8", "dynamic", "--device", "raspberry-pi-4", "--out", tmp_path / "there")
    assert result.code == 0, result.err
    for part in ("model.onnx", "input float32 (batch, 1)", "from torch", "p99", "on raspberry-pi-4"):
        assert part in result.out
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["model.onnx", "report.json"]


def test_a_run_is_exported_when_it_has_ended(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    result = polyrhythm("run", tiny, "--set", "epochs=1", "--on", "simulator", "--out", tmp_path / "run", "--export", "onnx")
    assert result.code == 0, result.err
    assert f"the model is in {tmp_path / 'run' / 'onnx'}: " in result.err
    assert pr.Predictor(tmp_path / "run" / "onnx").outputs == ["output"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--export", "onnx"], "--export onnx is written beside the record of the run: give --out DIR"),
        (["--export", "tflite", "--out", "x"], "No target of an export is called 'tflite'"),
        (["--export", "page", "--out", "x"], "There is no page for"),
        (["--export", "executorch", "--out", "x"], "install it, with pip install 'polyrhythm[executorch]'"),
    ],
)
def test_an_export_that_could_not_be_is_refused_before_the_run(polyrhythm: Any, tiny: Path, words: list[str], message: str) -> None:
    result = polyrhythm("run", tiny, "--on", "simulator", *words)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "tflite"], "No target of an export is called 'tflite'"),
        (["--int8", "four"], "No kind of int8 is called 'four'. There are: dynamic, static."),
        (["--to", "executorch", "--int8", "dynamic"], "--int8 is for --to onnx and page"),
        (["--to", "page"], "There is no page for"),
        (["--budget", "size=10B"], "model.onnx is over its budget: it has"),
        (["--budget", "weight=3"], "No part of a budget is called 'weight'"),
        (["--device", "abacus"], "No device is called 'abacus'"),
        (["--job", "digits-cnn"], "The weights of the run are not those of the JOB's model"),
        (["--model", "other"], "No model of the run is called 'other'"),
        (["--set", "width=3"], "No setting of"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_writes_nothing(polyrhythm: Any, kept: Path, words: list[str], message: str) -> None:
    before = sorted(path.name for path in kept.iterdir())
    result = polyrhythm("export", kept, *words)
    assert result.code == 2
    assert message in result.err
    assert sorted(path.name for path in kept.iterdir() if any(path.iterdir() if path.is_dir() else [path])) == before
