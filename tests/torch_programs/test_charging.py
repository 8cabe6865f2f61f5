"""Laws of what computing costs: as it was measured, by its operations, and never nothing without a word."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist

import polyrhythm as pr
from polyrhythm.hardware.devices import load
from polyrhythm.hardware.fleet import Fleet, Mixed


def busy(seconds: float) -> None:
    """Python that no operation counts."""
    end = time_of_thread() + seconds
    while time_of_thread() < end:
        pass


time_of_thread = time.thread_time  # the real one: a run has others


def program() -> None:
    dist.init_process_group("gloo")
    for _ in range(4):
        busy(0.02)
        dist.all_reduce(torch.ones(2))
        busy(0.005)
        dist.barrier()


def seconds(**how: Any) -> float:
    found = pr.simulate(program, ranks=2, **how).summary.virtual_seconds
    assert found is not None
    return found


def test_what_was_measured_is_charged_and_repeats_to_the_byte(tmp_path: Path) -> None:
    file = tmp_path / "here.json"
    measured = seconds(measure=file)
    assert 0.1 < measured < 0.2
    first, again = (pr.simulate(program, ranks=2, on=pr.Simulator(devices=file)) for _ in range(2))
    assert msgspec.json.encode(first.outcome.events) == msgspec.json.encode(again.outcome.events)
    assert first.summary.virtual_seconds == pytest.approx(measured, rel=0.25)
    assert "not charged" not in first.outcome.settings
    assert seconds() < 0.01


def test_a_slower_machine_takes_longer_for_measured_segments(tmp_path: Path) -> None:
    file = tmp_path / "here.json"
    seconds(measure=file)
    fast, slow = (seconds(on=pr.Simulator(devices=Fleet((load(file),), paces))) for paces in ((), (Mixed((0.25,)),)))
    assert 3 * fast < slow < 4 * fast


def test_clocks_read_between_waits_show_measured_time_and_never_go_back(tmp_path: Path) -> None:
    file, read = tmp_path / "here.json", list[float]()

    def timed() -> None:
        dist.init_process_group("gloo")
        for _ in range(3):
            read.append(time.perf_counter())
            busy(0.01)
            read.append(time.perf_counter())
            dist.barrier()

    pr.simulate(timed, ranks=1, measure=file)
    read.clear()
    pr.simulate(timed, ranks=1, on=pr.Simulator(devices=file))
    assert read == sorted(read)
    assert read[3] - read[2] == pytest.approx(0.01, rel=0.5)


def test_segments_that_a_file_lacks_are_named(tmp_path: Path) -> None:
    file = tmp_path / "here.json"
    pr.simulate(program, ranks=2, measure=file)
    written = json.loads(file.read_text())
    written["segments"] = written["segments"][:2]
    file.write_text(json.dumps(written))
    remark = pr.simulate(program, ranks=2, on=pr.Simulator(devices=file)).outcome.settings["not charged"]
    assert "segments were not measured" in remark
    assert "test_charging.py:" in remark


def test_operations_that_are_not_counted_are_named() -> None:
    def sorts() -> None:
        dist.init_process_group("gloo")
        torch.rand(8).sort()
        torch.linalg.svd(torch.rand(4, 4))
        torch.fft.fft(torch.rand(8))
        torch.ops.ours_of_a_test.twice(torch.ones(2))
        torch.rand(4, 4) @ torch.rand(4, 4) + 1

    library = torch.library.Library("ours_of_a_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CPU")
    remark = pr.simulate(sorts, ranks=1).outcome.settings["not charged"]
    assert all(name in remark for name in ("aten::sort (1)", "aten::_linalg_svd (1)", "aten::_fft_r2c (1)", "ours_of_a_test::twice (1)"))
    assert "aten::mm" not in remark
    assert "aten::add" not in remark
