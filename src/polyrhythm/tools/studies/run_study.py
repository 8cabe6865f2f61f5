"""Carries a study out: every cell in every repetition, what a directory already holds taken from there. `polyrhythm study` calls it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import msgspec

from polyrhythm.core.records.outcome import versions
from polyrhythm.errors import PolyrhythmError, sentence
from polyrhythm.tools.studies.grid import Cell, StudyGrid, cores
from polyrhythm.tools.studies.study import Study
from polyrhythm.tools.studies.study_report import StudyCircumstances, StudyReport, StudyTable, judged

MEASUREMENTS = "measurements.jsonl"


class Measurement(msgspec.Struct, frozen=True):
    """One repetition of a cell: its `values` by quantity, the load average before it, and the `key` of all that decided it."""

    key: str
    values: dict[str, float]
    load: float


@dataclass(slots=True)
class _UnderWay:
    study: Study
    directory: Path
    watch: Callable[[str], None]
    done: dict[str, Measurement]
    failures: dict[tuple[str, int], str] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)
    taken: int = 0


def run_study(name: str, study: Study, directory: Path, watch: Callable[[str], None] = lambda _: None) -> StudyReport:
    """Measure every cell of `study` that is not refused, and write the measurements to `directory` as they come.

    Repetitions are the outer loop, so that what changes on the machine meanwhile meets all cells alike. A cell that fails is named in the
    report, and the others continue; the next call tries it again. Measurements of the same settings, machine and versions are taken from
    the directory. `watch` is told of each. Raises OSError where the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    state = _UnderWay(study, directory, watch, _kept(directory))
    for repetition in range(study.repetitions):
        for table, grid in study.grids().items():
            for number, cell in enumerate(grid.cells()):
                _settle(state, (table, number), grid, cell, repetition)
    tables = [_table(state, table, grid) for table, grid in study.grids().items()]
    where = StudyCircumstances(
        cores=cores(),
        machine=machine(),
        load=[min(state.loads), max(state.loads)] if state.loads else [],
        taken=state.taken,
        versions=versions(),
    )
    return judged(name, study, tables, where)


def _settle(state: _UnderWay, place: tuple[str, int], grid: StudyGrid, cell: Cell, repetition: int) -> None:
    """See that a repetition of a cell is measured, unless the cell is refused or has failed."""
    if grid.refused(cell) or place in state.failures:
        return
    key = _key(place[0], grid, cell, repetition)
    if (found := state.done.get(key)) is not None:
        state.taken += 1
        state.loads.append(found.load)
        return
    state.watch(f"{place[0]}: {', '.join(f'{name} {level}' for name, level in cell.items())}; repetition {repetition + 1}")
    load = round(os.getloadavg()[0], 2)
    try:
        values = grid.measure(cell, repetition)
    except PolyrhythmError as error:
        state.failures[place] = f"failed in repetition {repetition + 1}: {sentence(error)}"
        return
    state.done[key] = Measurement(key, dict(values), load)
    state.loads.append(load)
    with (state.directory / MEASUREMENTS).open("ab") as lines:
        lines.write(msgspec.json.encode(state.done[key]) + b"\n")


def _table(state: _UnderWay, table: str, grid: StudyGrid) -> StudyTable:
    rows = []
    for number, cell in enumerate(grid.cells()):
        why = grid.refused(cell) or state.failures.get((table, number), "")
        each = (state.done.get(_key(table, grid, cell, repetition)) for repetition in range(state.study.repetitions))
        values = [] if why else [found.values for found in each if found is not None]
        rows.append((cell, values, why))
    return StudyTable.of(table, grid, rows)


def _kept(directory: Path) -> dict[str, Measurement]:
    """The measurements in a directory by their keys; a line that was cut off is none."""
    return {each.key: each for each in _lines(directory / MEASUREMENTS)}


def _lines(file: Path) -> Iterator[Measurement]:
    if not file.is_file():
        return
    for line in file.read_bytes().splitlines():
        try:
            yield msgspec.json.decode(line, type=Measurement)
        except msgspec.DecodeError:
            continue


def _key(table: str, grid: StudyGrid, cell: Cell, repetition: int) -> str:
    decisive: Mapping[str, object] = {"table": table, **grid.decisive(cell), "repetition": repetition, "machine": machine(), **versions()}
    return sha256(msgspec.json.encode(decisive, order="sorted")).hexdigest()[:24]


def machine() -> str:
    """The processor of this machine, and how many cores of it may be used."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{named[0] if named else os.uname().machine}, {cores()} cores"
