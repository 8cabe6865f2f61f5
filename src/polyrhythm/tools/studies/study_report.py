"""The report of a study: medians, intervals and variation of every quantity in every cell, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from polyrhythm.tools.measuring.line_fit import LineFit
from polyrhythm.tools.report.estimates import MedianEstimate, estimate
from polyrhythm.tools.studies.grid import Cell, Level, StudyGrid
from polyrhythm.tools.studies.message_grids import interconnect
from polyrhythm.tools.studies.study import Study

RATE = "samples/s"
LEAST_R_SQUARED = 0.95
"""Of an α-β model that is called one."""


class CellResult(msgspec.Struct, frozen=True):
    """A cell: its level of each factor, the values of each quantity by repetition with their estimates, and why there are none."""

    levels: dict[str, Level]
    values: dict[str, list[float]]
    estimates: dict[str, MedianEstimate]
    missing: str = ""

    def named(self, factors: Sequence[str]) -> str:
        """The levels of some factors: "workers 2, threads 1"."""
        return ", ".join(f"{name} {self.levels[name]}" for name in factors) or "the one cell"


class InterconnectFit(msgspec.Struct, frozen=True):
    """T = α + β n of one interconnect, on median times: seconds a message, seconds a byte, and how well that fits."""

    interconnect: str
    alpha: float
    beta: float
    r_squared: float
    holds: bool


class BestCell(msgspec.Struct, frozen=True):
    """The best combination of the factors that a study names, of all other factors' levels in `among`; `untold` are not told apart."""

    among: str
    levels: dict[str, Level]
    rate: MedianEstimate
    untold: list[str]


class StudyTable(msgspec.Struct, frozen=True):
    """One grid that was measured: the names of its factors and quantities, and its cells."""

    name: str
    about: str
    factors: list[str]
    units: dict[str, str]
    cells: list[CellResult]

    @staticmethod
    def of(name: str, grid: StudyGrid, rows: Sequence[tuple[Cell, Sequence[Mapping[str, float]], str]]) -> StudyTable:
        """The table of measured `rows`: a cell, its repetitions, and why it has none."""
        cells = []
        for cell, repetitions, why in rows:
            quantities = list(dict.fromkeys(quantity for each in repetitions for quantity in each))
            values = {quantity: [each[quantity] for each in repetitions if quantity in each] for quantity in quantities}
            values = {quantity: found for quantity, found in values.items() if all(map(math.isfinite, found))}
            cells.append(CellResult(dict(cell), values, {quantity: estimate(found) for quantity, found in values.items()}, why))
        factors = list(cells[0].levels)
        return StudyTable(name, grid.about, factors, dict(grid.units), cells)

    @property
    def varied(self) -> list[str]:
        """The factors that have several levels."""
        return [name for name in self.factors if len({cell.levels[name] for cell in self.cells}) > 1]

    @property
    def fixed(self) -> dict[str, Level]:
        """The factors that have one level."""
        return {name: self.cells[0].levels[name] for name in self.factors if name not in self.varied}

    @property
    def quantities(self) -> list[str]:
        """The quantities of any cell, in the order of the first that has them."""
        return list(dict.fromkeys(quantity for cell in self.cells for quantity in cell.estimates))


class StudyCircumstances(msgspec.Struct, frozen=True):
    """The machine, the least and the greatest load average, how many measurements were there already, and versions."""

    cores: int
    machine: str
    load: list[float]
    taken: int
    versions: dict[str, str]


class StudyReport(msgspec.Struct, frozen=True, kw_only=True):
    """A study that was carried out. It is `complete` if every cell has all repetitions; `missing` names the others, with the reason.

    `speedups` are of the cells of grids with several numbers of workers, by table and cell: the median rate over that of the fewest
    workers with the same levels of all other factors.
    """

    name: str
    title: str
    paper: str
    note: str
    repetitions: int
    complete: bool
    missing: list[str]
    tables: list[StudyTable]
    fits: list[InterconnectFit]
    best: list[BestCell]
    speedups: dict[str, list[float | None]]
    circumstances: StudyCircumstances

    @property
    def failed(self) -> bool:
        """True if a cell is missing that was not refused."""
        return any(cell.missing and not cell.missing.startswith("refused") for table in self.tables for cell in table.cells)


def judged(name: str, study: Study, tables: list[StudyTable], where: StudyCircumstances) -> StudyReport:
    """The report of measured tables."""
    missing = [f"{table.name}: {cell.named(table.varied)}: {cell.missing}" for table in tables for cell in table.cells if cell.missing]
    return StudyReport(
        name=name,
        title=study.title,
        paper=study.paper,
        note=study.note,
        repetitions=study.repetitions,
        complete=not missing,
        missing=missing,
        tables=tables,
        fits=[fit for table in tables for cell in table.cells if (fit := _fit(cell)) is not None],
        best=[best for table in tables for best in best_of(table, study.best)],
        speedups={table.name: speedups(table) for table in tables if "workers" in table.varied},
        circumstances=where,
    )


def best_of(table: StudyTable, factors: Sequence[str]) -> list[BestCell]:
    """The best levels of `factors` by the median of samples per second, for each combination of the other factors that vary."""
    chosen = [name for name in factors if name in table.factors]
    others = [name for name in table.varied if name not in chosen]
    groups: dict[str, list[CellResult]] = {}
    for cell in table.cells:
        if chosen and RATE in cell.estimates:
            groups.setdefault(cell.named(others) if others else "all cells", []).append(cell)
    found = []
    for among, cells in groups.items():
        first = max(cells, key=lambda cell: cell.estimates[RATE].median)
        rate = first.estimates[RATE]
        untold = [cell.named(chosen) for cell in cells if cell is not first and rate.overlaps(cell.estimates[RATE])]
        found.append(BestCell(among, {name: first.levels[name] for name in chosen}, rate, untold))
    return found


def speedups(table: StudyTable) -> list[float | None]:
    """For each cell its median rate over that of the fewest workers, all other levels being equal; None where either is missing."""

    def others(cell: CellResult) -> tuple[tuple[str, Level], ...]:
        return tuple((name, level) for name, level in cell.levels.items() if name != "workers")

    fewest = min(int(cell.levels["workers"]) for cell in table.cells)
    alone = {others(cell): cell for cell in table.cells if cell.levels["workers"] == fewest}
    found: list[float | None] = []
    for cell in table.cells:
        base = alone.get(others(cell))
        known = base is not None and RATE in base.estimates and RATE in cell.estimates
        found.append(cell.estimates[RATE].median / base.estimates[RATE].median if known and base is not None else None)
    return found


def _fit(cell: CellResult) -> InterconnectFit | None:
    line: LineFit | None = interconnect({name: each.median for name, each in cell.estimates.items()})
    if line is None:
        return None
    return InterconnectFit(str(cell.levels["interconnect"]), line.start, line.slope, line.r_squared, line.r_squared >= LEAST_R_SQUARED)
