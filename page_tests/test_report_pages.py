"""The pages that commands write, in a browser: every chart is drawn, nothing is reported as an error, in light and dark."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Browser
from program import command

from planner.test_shown import choice
from planner.test_shown import plan as planned
from polyrhythm.serving import LatencyProfile
from polyrhythm.serving.serving_files import write_profiles
from polyrhythm.tools.planner.answer import Cell, PhaseMap
from polyrhythm.tools.planner.page import write
from polyrhythm.tools.scaling.scaling_page import write_scaling_page
from polyrhythm.tools.scaling.sweep import ScalingPoint, ScalingSweep, report_of

MODELS = """
[[models]]
name = "digits"
emulated = true
input = [16]
[[sessions]]
name = "pages"
model = "digits"
slo = "100 ms"
rate = 50
[[sessions]]
name = "archive"
model = "digits"
slo = "1 s"
rate = 20
"""
SITE = """
[[machines]]
name = "desk"
kind = "laptop"
memory = "4 GB"
"""

DRAWN = "each => each.querySelector('.live canvas') && each.querySelector('.still').hidden"


def runs(folder: Path) -> Path:
    """A comparison of two systems."""
    command(
        "compare",
        "xor",
        "--set",
        "samples=500",
        "--systems",
        "allreduce,ssp",
        "--workers",
        2,
        "--on",
        "simulator",
        "--out",
        folder / "runs",
        "--quiet",
    )
    return folder / "runs" / "report.html"


def one_run(folder: Path) -> Path:
    command("run", "xor", "--set", "samples=500", "--workers", 2, "--on", "simulator", "--out", folder / "run", "--quiet")
    command("report", folder / "run", "--out", folder / "run.html")
    return folder / "run.html"


def cluster(folder: Path) -> Path:
    words = ("--jobs", 12, "--hosts", "2x4", "--policies", "fifo,las", "--page", folder / "cluster.html")
    command("cluster", "simulate", "tiresias", *words)
    return folder / "cluster.html"


def scaling(folder: Path) -> Path:
    """Its charts stand in no section."""
    points = [ScalingPoint("a", str(size), 0, size, float(size), 1 / size) for size in (1, 2, 4, 8)]
    report = report_of(points, "loss", ScalingSweep({"a": ("w", ())}))
    return write_scaling_page(report, folder / "scaling.html", "polyrhythm scaling a")


def serving(folder: Path, *lost: str) -> Path:
    (folder / "models.toml").write_text(MODELS)
    (folder / "site.toml").write_text(SITE)
    write_profiles(folder / "profiles.json", [LatencyProfile.measured("digits", "laptop", {1: 0.004, 32: 0.05}, {1: 10**8, 32: 2 * 10**8})])
    page = folder / "serving.html"
    command("serve", "simulate", folder / "models.toml", "--machines", folder / "site.toml", "--seconds", 20, *lost, "--report", page)
    return page


def lost(folder: Path) -> Path:
    """The site has no machine any more."""
    return serving(folder, "--lose", "desk@5")


def plan(folder: Path) -> Path:
    cells = [Cell(workers, times, name, 1.0, 2.0) for workers in (2, 4) for times, name in ((0.1, "ssp"), (1.0, "diloco"))]
    maps = [PhaseMap("bandwidth", 1e6, ["ssp", "diloco"], cells)]
    return write(planned([choice("diloco", 4, 1.0), choice("sparknet", 2, 2.0, 1e5)], maps), folder / "plan.html")


@pytest.mark.parametrize("make", [runs, one_run, cluster, scaling, serving, lost, plan], ids=lambda make: make.__name__)
def test_every_chart_is_drawn_and_no_error_is_reported(tab: Browser, tmp_path: Path, make: Callable[[Path], Path]) -> None:
    page = make(tmp_path)
    pictures = Path(os.environ.get("PAGE_PICTURES", tmp_path))
    for dark in (False, True):
        tab.told.clear()
        tab.visit(page.as_uri(), 1280, 800, dark=dark)
        tab.until(f"[...document.querySelectorAll('.canvas')].every({DRAWN})")
        assert tab.value("document.querySelectorAll('.canvas').length") > 0
        tab.picture(pictures / f"{make.__name__}-{'dark' if dark else 'light'}.png")
        assert tab.told == []
