"""Studies: complete grids, cells that are refused or fail, what is taken from a directory, and what follows from the figures."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from polyrhythm.errors import CompositionError, PolyrhythmError, RunError
from polyrhythm.tools.measuring.line_fit import fitted
from polyrhythm.tools.report.estimates import estimate
from polyrhythm.tools.studies.grid import crossed
from polyrhythm.tools.studies.message_grids import VirtualMessageGrid
from polyrhythm.tools.studies.real_grid import RealGrid
from polyrhythm.tools.studies.run_study import MEASUREMENTS, run_study
from polyrhythm.tools.studies.storage_grid import StorageGrid
from polyrhythm.tools.studies.study import Study, load_study, shipped
from polyrhythm.tools.studies.study_report import StudyTable, best_of, speedups
from polyrhythm.tools.studies.virtual_grid import VirtualGrid
from report.page_laws import empty_tables

XOR = VirtualGrid(job="xor", settings={"samples": 40}, workers=(1, 2), networks=("lan", "slow"))


class Rates:
    """A grid of known figures, one cell of which fails and one of which is refused."""

    about = "figures"
    tried: int = 0

    @property
    def units(self) -> Mapping[str, str]:
        return {}

    def cells(self) -> list[dict[str, Any]]:
        return crossed({"workers": [1, 2, 4, 8], "threads": [1, 2]})

    def refused(self, cell: Mapping[str, Any]) -> str:
        return "refused: too many" if cell["workers"] * cell["threads"] > 8 else ""

    def decisive(self, cell: Mapping[str, Any]) -> Mapping[str, Any]:
        return dict(cell)

    def measure(self, cell: Mapping[str, Any], repetition: int) -> Mapping[str, float]:
        self.tried += 1
        if cell["workers"] == 8:
            raise RunError("worker/3 was lost.")
        return {"samples/s": 100.0 * cell["workers"] + cell["threads"] + repetition}


class Given(Study, frozen=True):
    """A study of a grid that is given."""

    grid: Any = None

    def grids(self) -> dict[str, Any]:
        return {"rates": self.grid}


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_study_can_be_carried_out_here_and_names_its_paper(name: str) -> None:
    _, study = load_study(name)
    assert study.paper
    for grid in study.grids().values():
        assert any(not grid.refused(cell) for cell in grid.cells())


def test_every_cell_has_all_repetitions_or_is_named_with_the_reason(tmp_path: Path) -> None:
    report = run_study("crafted", Given(title="Crafted", grid=Rates()), tmp_path)
    assert not report.complete
    assert report.missing == [
        "rates: workers 8, threads 1: failed in repetition 1: worker/3 was lost.",
        "rates: workers 8, threads 2: refused: too many",
    ]
    assert all(len(cell.values["samples/s"]) == 5 for cell in report.tables[0].cells if not cell.missing)
    assert report.failed


def test_what_is_measured_is_taken_from_the_directory_and_failures_are_tried_again(tmp_path: Path) -> None:
    grid = Rates()
    first = run_study("crafted", Given(title="Crafted", grid=grid), tmp_path)
    assert grid.tried == 31
    lines = (tmp_path / MEASUREMENTS).read_bytes().splitlines(keepends=True)
    (tmp_path / MEASUREMENTS).write_bytes(b"".join(lines[:-1]) + lines[-1][:20])  # broken off while a line was written
    again = run_study("crafted", Given(title="Crafted", grid=grid), tmp_path)
    assert grid.tried == 33
    assert again.circumstances.taken == 29
    assert again.tables == first.tables


def test_speed_ups_are_against_the_fewest_workers_with_the_same_other_levels(tmp_path: Path) -> None:
    report = run_study("crafted", Given(title="Crafted", grid=Rates()), tmp_path)
    assert speedups(report.tables[0]) == [1.0, 1.0, 203 / 103, 204 / 104, 403 / 103, 404 / 104, None, None]


def test_the_best_split_names_what_it_is_not_told_apart_from(tmp_path: Path) -> None:
    report = run_study("crafted", Given(title="Crafted", best=("workers", "threads"), grid=Rates()), tmp_path)
    (best,) = report.best
    assert best.levels == {"workers": 4, "threads": 2}
    assert best.untold == ["workers 4, threads 1"]
    apart = best_of(report.tables[0], ["workers"])
    assert [each.among for each in apart] == ["threads 1", "threads 2"]
    assert not any(each.untold for each in apart)


def test_workers_and_threads_beyond_the_cores_are_refused_on_real_processes() -> None:
    cores = len(os.sched_getaffinity(0))
    grid = RealGrid(job="xor", workers=(1, cores + 1), threads=(1, cores))
    assert [bool(grid.refused(cell)) for cell in grid.cells()] == [False, False, True, True]
    assert f"more than the {cores} cores" in grid.refused(grid.cells()[-1])


def test_a_grid_in_virtual_time_is_measured_with_real_gradients(tmp_path: Path) -> None:
    report = run_study("xor", Study(title="Xor", virtual=XOR), tmp_path)
    assert report.complete
    assert [cell.levels["network"] for cell in report.tables[0].cells] == ["lan", "slow", "lan", "slow"]
    by_network = {cell.levels["network"]: cell.estimates["samples/s"].median for cell in report.tables[0].cells[2:]}
    assert by_network["lan"] > by_network["slow"]


@pytest.mark.parametrize("name", ["lan", "slow", "home"])
def test_the_interconnect_of_a_simulated_network_is_the_one_that_it_has(tmp_path: Path, name: str) -> None:
    study = Study(title="Links", virtual_messages=VirtualMessageGrid(networks=(name,)))
    (fit,) = run_study("links", study, tmp_path).fits
    known = {"lan": (50e-6, 8 / 10e9), "slow": (20e-3, 8 / 50e6), "home": (15e-3, 8 / 20e6)}[name]
    assert fit.holds
    assert fit.r_squared > 0.999
    assert (fit.alpha, fit.beta) == pytest.approx(known, rel=0.02)


def test_storage_is_measured_in_bytes_a_second(tmp_path: Path) -> None:
    found = StorageGrid(nbytes=(1 << 16,), directory=str(tmp_path)).measure({"nbytes": 1 << 16}, 0)
    assert min(found.values()) > 0


def test_a_line_that_does_not_fit_is_not_called_an_alpha_beta_model() -> None:
    assert fitted([1, 2, 3, 4], [1, 5, 2, 6]).r_squared < 0.95


def test_the_coefficient_of_variation_is_the_deviation_as_a_part_of_the_mean() -> None:
    found = estimate([9.0, 10.0, 11.0, 10.0, 10.0])
    assert found.variation == pytest.approx(0.0707, rel=0.01)
    assert found.low <= found.median <= found.high
    assert estimate([3.0]).variation is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = 'a'", "no table of factors"),
        ("title = 'a'\nrepetitions = 4\n[storage]", "too few"),
        ("title = 'a'\n[virtual]\njob = 'xor'\nworkers = []", "has no level"),
        ("title = 'a'\n[virtual]\njob = 'xor'\nworkers = [2, 2]", "has a level twice"),
        ("title = 'a'\n[virtual]\njob = 'xor'\nworkers = [0]", "means nothing"),
        ("title = 'a'\n[virtual]\njob = 'xor'\nthreads = [2]", "unknown field `threads`"),
        ("title = 'a'\n[virtual]\njob = 'xor'\nvary = { workers = [1] }", "varies, and is in"),
        ("title = 'a'\n[virtual]\njob = 'xor'\nvary = { widht = [1] }", "widht"),
        ("title = 'a'\n[virtual]\njob = 'xor'\nsystems = ['allreduec']", "allreduce"),
        ("title = 'a'\n[virtual]\njob = 'xor'\nnetworks = ['lam']", "lan"),
        ("title = 'a'\nbest = ['thread']\n[real]\njob = 'xor'", "threads"),
        ("title = 'a'\n[real]\njob = 'xor'\nprecision = ['float8']", "precision"),
        ("title = ", "is no study"),
    ],
)
def test_a_file_that_is_no_study_is_refused_with_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(text)
    with pytest.raises(PolyrhythmError, match=words):
        load_study(str(file))


def test_the_command_writes_a_table_a_report_and_a_page(polyrhythm: Any, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        "title = 'Two <networks>'\n[virtual]\njob = 'xor'\nsettings = { samples = 40 }\nnetworks = ['lan', 'slow']\nworkers = [2]\n"
    )
    done = polyrhythm("study", file, "--quick", "--out", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report == json.loads((tmp_path / "out" / "report.json").read_bytes())
    assert report["complete"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Two &lt;networks&gt;" in page
    assert "A quick run" in page
    assert empty_tables(page) == []
    shown = polyrhythm("study", file, "--quick", "--out", tmp_path / "out", "--quiet")
    assert "All 2 cells were measured 2 times." in shown.out
    assert msgspec.json.decode((tmp_path / "out" / "report.json").read_bytes())["circumstances"]["taken"] == 4


def test_without_a_name_the_shipped_studies_are_listed(polyrhythm: Any) -> None:
    done = polyrhythm("study", "--json")
    assert [each["name"] for each in json.loads(done.out)] == ["han", "ramirez-gargallo", "ren", "shams"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["shamz"], "Did you mean"),
        (["han", "--quick", "--repetitions", "9"], "leave one of the two out"),
        (["no.toml"], "There is no file"),
    ],
)
def test_what_cannot_be_studied_is_refused(polyrhythm: Any, given: list[str], words: str) -> None:
    done = polyrhythm("study", *given)
    assert done.code == 2
    assert words in done.err


@pytest.mark.long
def test_real_processes_are_measured_with_threads_and_precisions(tmp_path: Path) -> None:
    grid = RealGrid(job="digits-mlp", settings={"epochs": 1}, precision=("float32", "bfloat16"))
    report = run_study("real", msgspec.structs.replace(Study(title="Real", real=grid), repetitions=2), tmp_path)
    assert report.complete
    exact, lower = (cell.estimates["final accuracy"].median for cell in report.tables[0].cells)
    assert min(exact, lower) > 0.85


def test_the_table_of_a_grid_has_the_factors_that_vary_apart_from_the_others() -> None:
    table = StudyTable.of("virtual", XOR, [(cell, [{"seconds": 1.0}], "") for cell in XOR.cells()])
    assert table.varied == ["workers", "network"]
    assert table.fixed == {"system": "allreduce", "device": "cpu-core"}
    with pytest.raises(CompositionError, match="twice"):
        crossed({"workers": [1, 1]})
