"""The bars of the benchmarks."""

from __future__ import annotations

import importlib.util
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "drawing.py"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    """The file by its path: the benchmarks are no package, and their names are common words."""
    spec: Any = importlib.util.spec_from_file_location("drawing", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_way_has_a_bar_and_its_time_the_shortest_first(drawing: ModuleType) -> None:
    svg = drawing.bars({"slow": {"ddp": 77.0, "ours": 0.95, "lost": math.inf}, "4 MiB": {"gloo": 4e-6, "ours": 0.0123}}, {"ours"}, "time")
    words = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert [word for word in words if word in ("ours", "ddp", "lost", "gloo")] == ["ours", "ddp", "lost", "gloo", "ours"]
    assert {"slow: time, logarithmic", "4 MiB: time, logarithmic", "0.95 s", "77 s", "not reached", "4.00 µs", "12 ms"} <= set(words)
    widths = {colour: float(width) for width, colour in re.findall(r'd="M0,\S+?h([\d.]+)v[\d.]+h-[\d.]+Z" fill="(#\w+)"', svg)}
    assert widths.keys() == {"#2f6fb5", "#b9bec6"}


def test_bars_are_as_long_as_the_logarithms_of_their_times(drawing: ModuleType) -> None:
    svg = drawing.bars({"slow": {"one": 1.0, "ten": 10.0, "hundred": 100.0}}, set(), "time")
    one, ten, hundred = (float(width) for width in re.findall(r'd="M0,\S+?h([\d.]+)v[\d.]+h-[\d.]+Z" fill="#b9bec6"', svg))
    assert hundred - ten == pytest.approx(ten - one, abs=0.01)
    assert hundred == 620


def test_nothing_that_was_reached_is_drawn_too(drawing: ModuleType) -> None:
    assert "not reached" in drawing.bars({"slow": {"ddp": math.inf}}, set(), "time")
