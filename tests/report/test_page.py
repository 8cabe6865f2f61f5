"""The page: complete, self-contained, small, safe, and the same for the same runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from polyrhythm.kernel.events import Computed, Reported, Stepped, Waited
from polyrhythm.report.metrics import Target
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.page import page, write

from .scenes import SYSTEMS, failed, outcome, plain

GOAL = Target("accuracy", 0.96)
NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def comparison() -> list[Outcome]:
    real = [outcome(system, workers=2, on="processes", steps=20) for system in list(SYSTEMS)[:6]]
    return [*real, *(outcome(system, steps=40) for system in SYSTEMS), failed("bagua")]


@pytest.fixture(scope="module")
def written(comparison: list[Outcome]) -> str:
    """The page without plotly's own source."""
    return page(comparison, "digits-cnn", GOAL, "polyrhythm compare digits-cnn").replace(get_plotlyjs(), "PLOTLY")


def test_it_names_every_system_the_failure_the_command_and_the_settings(written: str) -> None:
    for system in SYSTEMS:
        assert system in written
    assert "bagua: worker/3 failed: RuntimeError: the loader is empty." in written
    assert "polyrhythm compare digits-cnn" in written
    assert "Strategy(topology=Ssp())" in written
    assert "torch" in written


def test_real_and_virtual_runs_have_sections_of_their_own(written: str) -> None:
    real, virtual = written.split("<section>")[1:]
    assert "On real processes" in real
    assert "real seconds" in real
    assert "virtual" not in re.sub(r"<script.*?</script>", "", real)
    assert "In virtual time" in virtual
    assert "Accuracy against virtual time" in virtual


def test_it_needs_no_network(written: str) -> None:
    assert "http://" not in written
    assert "https://" not in written
    assert "default-src 'none'" in written
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", written)


def test_it_says_everything_without_scripts(written: str) -> None:
    still = re.sub(r"<script.*?</script>", "", written, flags=re.DOTALL)
    assert still.count('<div class="plot"><svg') == 8
    assert still.count("<table>") == 2
    assert still.count("<figcaption>") == 18
    assert "width=device-width" in still


def test_the_figures_are_json_that_a_browser_can_read(written: str) -> None:
    figures = re.findall(r'<script type="application/json">(.*?)</script>', written, flags=re.DOTALL)
    assert len(figures) == 8
    names = {trace["name"] for text in figures for trace in json.loads(text)["data"]}
    assert names == set(SYSTEMS)


def test_what_users_name_is_escaped() -> None:
    run = plain(NASTY, 8.0, 3000, [(5.0, 2000, 0.92), (6.0, 2100, 0.93)], network=NASTY, lost=[NASTY])
    run.settings["strategy"] = NASTY
    run.summary.final = {NASTY: 1.0}
    run.events.append(Reported(7.0, "worker/0", 3, {NASTY: 1.0}, 2200))
    text = page([run, failed(NASTY, NASTY)], NASTY, Target(NASTY, 1.0), NASTY)
    assert NASTY not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert len(re.findall(r"<script", text.replace(get_plotlyjs(), ""))) == 2 + len(re.findall(r'<script type="application/json"', text))


def test_the_same_runs_give_the_same_bytes(comparison: list[Outcome], tmp_path: Path) -> None:
    first = write(comparison, tmp_path / "one.html", "digits-cnn", GOAL)
    second = write(comparison, tmp_path / "deep" / "two.html", "digits-cnn", GOAL)
    assert first.read_bytes() == second.read_bytes()


def test_long_runs_of_64_workers_stay_under_6_megabytes() -> None:
    runs = []
    for index, system in enumerate(SYSTEMS):
        run = plain(system, 1000.0, 10_000_000, [(step + 1.0, 1000 * step + 7, step / 1000 + index / 1e4) for step in range(2000)])
        run.summary.workers = 64
        for rank in range(64):
            name = f"worker/{rank}"
            for step in range(200):
                run.events.append(Computed(step * 0.01 + 0.005 + index * 1e-5, name, 0.004 + rank * 1e-5))
                run.events.append(Waited(step * 0.01 + 0.01, name, 0.0049))
            run.events.append(Stepped(2.0, name, 1, 1, 1))
        runs.append(run)
    assert len(page(runs, "long", GOAL).encode()) < 6_000_000


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [failed("ssp")],
        [plain("ssp", 1.0, 0, [])],
        [plain("single", 1.0, 0, [(1.0, 0, 0.5)])],
        [plain("ssp", 1.0, 5, [(0.0, 0, 0.5)])],
        [plain("ssp", 1.0, 5, [(0.5, 5, 0.5)]), plain("tree", 900.0, 5_000_000, [(900.0, 5_000_000, 0.5)])],
        [plain("ssp", 1.0, 5, [(0.0, 0, 0.1), (0.5, 5, 0.5)]), plain("tree", 900.0, 5_000_000, [(900.0, 5_000_000, 0.5)])],
        [plain("ssp", 1.0, 5, [(0.5, 5, -1.0)])],
    ],
    ids=["none", "failed", "no metric", "one point", "at zero", "wide", "wide from zero", "negative"],
)
def test_odd_runs_make_a_page_too(runs: list[Outcome]) -> None:
    text = page(runs, "odd").replace(get_plotlyjs(), "")
    assert "nan" not in re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL).lower().replace("finance", "")
    assert text.endswith("</html>\n")
