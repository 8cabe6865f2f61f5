"""The page: complete, self-contained, small, safe, and the same for the same runs."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from polyrhythm.core.kernel.events import Computed, Reported, Stepped, Waited
from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report.page import page, write
from polyrhythm.tools.report.panels import program
from report.page_laws import empty_tables, fixed_colours

from .scenes import SYSTEMS, failed, outcome, plain

GOAL = Target("accuracy", 0.96)
NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def comparison() -> list[Outcome]:
    real = [outcome(system, workers=2, on="processes", steps=20) for system in list(SYSTEMS)[:6]]
    return [*real, *(outcome(system, steps=40) for system in SYSTEMS), failed("bagua")]


@pytest.fixture(scope="module")
def written(comparison: list[Outcome]) -> str:
    """The page without the source of the libraries that draw."""
    return page(comparison, "digits-cnn", GOAL, "polyrhythm compare digits-cnn").replace(program(), "PROGRAM")


def without_scripts(text: str) -> str:
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


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


def test_its_pictures_can_be_read_in_light_and_dark(written: str) -> None:
    assert fixed_colours(written) == set()
    assert empty_tables(written) == []


def test_it_needs_no_network(written: str) -> None:
    assert "http://" not in written
    assert "https://" not in written
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", written)
    assert "url(" not in written


def test_only_the_two_scripts_of_the_page_may_run_and_nothing_may_be_made_into_one(comparison: list[Outcome]) -> None:
    text = page(comparison, "digits-cnn", GOAL)
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digests = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
    assert len(scripts) == 2
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)
    assert "default-src 'none'" in policy
    assert f"script-src {digests};" in policy
    assert "unsafe-eval" not in policy
    assert not re.search(r"\son\w+=", without_scripts(text))


def test_the_page_is_complete_without_scripts(written: str) -> None:
    still = without_scripts(written)
    assert still.count('<div class="still"><svg') == 10
    assert still.count('role="img" aria-label="') == 10
    assert still.count("<h4>") == 17
    assert still.count("<table>") == 2 + 17
    assert still.count("</dl>") == 6 + 13 + 1 + 1
    assert "width=device-width" in still


def test_the_charts_are_json_that_a_browser_can_read(written: str) -> None:
    charts = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', written, flags=re.DOTALL)]
    assert len(charts) == 10
    names = {row["name"] for chart in charts for data in chart["datasets"].values() for row in data if "name" in row}
    assert names == set(SYSTEMS)
    assert all({"name": "hidden", "value": []} in chart["params"] for chart in charts)


def test_its_charts_take_their_colours_from_the_page_so_that_they_follow_light_and_dark(written: str) -> None:
    for chart in re.findall(r'<div class="still">(.*?)</div>|<script type="application/json">(.*?)</script>', written, flags=re.DOTALL):
        assert "var(--c" in "".join(chart)
        assert not re.search(r"#[0-9a-f]{6}", "".join(chart))
    assert written.count("--c0: ") == 2


def test_nothing_is_to_be_pressed_where_nothing_is_drawn(written: str) -> None:
    assert "Press a name to hide it" in written
    run = plain("ssp", 8.0, 3000, [])
    assert "Press a name to hide it" not in page([run], "plain")


def test_seeds_of_one_system_have_one_chip(comparison: list[Outcome]) -> None:
    text = page([outcome(system, steps=10, seed=seed) for system in ("ssp", "tree") for seed in range(3)], "seeds")
    assert re.findall(r'data-name="(.*?)"', text) == ["ssp", "tree"]


def test_a_system_that_has_no_place_on_the_axis_of_bytes_is_named_once_whatever_its_seeds() -> None:
    text = page([outcome(system, steps=10, seed=seed) for system in ("single", "strom", "tree") for seed in range(3)], "seeds")
    assert len(re.findall(r"single sent nothing, so it is not drawn; its last values: [\d.]+ to [\d.]+", text)) == 2


def test_the_page_states_how_to_get_a_timeline(written: str) -> None:
    assert written.count("polyrhythm trace RUN_DIR") == 2


def test_what_users_name_is_escaped() -> None:
    run = plain(NASTY, 8.0, 3000, [(5.0, 2000, 0.92), (6.0, 2100, 0.93)], network=NASTY, lost=[NASTY])
    run.settings["strategy"] = NASTY
    run.summary.final = {NASTY: 1.0}
    run.events.append(Reported(7.0, "worker/0", 3, {NASTY: 1.0}, 2200))
    text = page([run, failed(NASTY, NASTY)], NASTY, Target(NASTY, 1.0), NASTY)
    assert NASTY not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert len(re.findall(r"<script", text.replace(program(), ""))) == 2 + len(re.findall(r'<script type="application/json"', text))


def test_the_same_runs_give_the_same_bytes(comparison: list[Outcome], tmp_path: Path) -> None:
    first = write(comparison, tmp_path / "one.html", "digits-cnn", GOAL)
    second = write(comparison, tmp_path / "deep" / "two.html", "digits-cnn", GOAL)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.long
def test_thirteen_systems_in_two_runtimes_stay_under_a_megabyte_and_a_half() -> None:
    runs = []
    for index, system in enumerate([*SYSTEMS, *SYSTEMS]):
        run = plain(system, 1000.0, 10_000_000, [(step + 1.0, 1000 * step + 7, step / 2001 + index / 1e4) for step in range(2000)])
        run.summary.workers = 64
        run.summary.on = "simulator" if index < len(SYSTEMS) else "processes"
        for event in run.events:
            assert isinstance(event, Reported)
            event.metrics["loss"] = 1 - event.metrics["accuracy"]
        for rank in range(64):
            name = f"worker/{rank}"
            for step in range(50):
                run.events.append(Computed(step * 0.01 + 0.005 + index * 1e-5, name, 0.004 + rank * 1e-5))
                run.events.append(Waited(step * 0.01 + 0.01, name, 0.0049))
            run.events.append(Stepped(2.0, name, 1, 1, 1))
        runs.append(run)
    assert len(page(runs, "long", GOAL).encode()) < 1_500_000


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
        [plain("ssp", 1.0, 5, [(0.5, 5, 1.0), (0.6, 6, float("nan"))])],
    ],
    ids=["none", "failed", "no metric", "one point", "at zero", "wide", "wide from zero", "negative", "diverged"],
)
def test_odd_runs_make_a_page_too(runs: list[Outcome]) -> None:
    text = page(runs, "odd")
    for chart in re.findall(r'<script type="application/json">(.*?)</script>', text, flags=re.DOTALL):
        json.loads(chart, parse_constant=pytest.fail)
    assert not re.search(r'="[^"]*\bNaN\b', without_scripts(text))
    assert text.endswith("</html>\n")
