"""A study's report as tables of text, as sentences, and as one HTML page."""

from __future__ import annotations

from pathlib import Path

import altair as alt

from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.tools.report import panels
from polyrhythm.tools.report.estimates import LEAST_REPETITIONS, MedianEstimate
from polyrhythm.tools.report.panels import Panel
from polyrhythm.tools.report.render import rendered, written
from polyrhythm.tools.report.style import ON_A_PAGE
from polyrhythm.tools.studies.study_report import RATE, StudyReport, StudyTable

_BAR, _MOST_BARS = 20, 48


def columns(table: StudyTable) -> list[str]:
    """The titles of a table's columns."""
    speed = ["speed-up"] if "workers" in table.varied else []
    return [*(table.varied or ["cell"]), *table.quantities, *speed]


def rows(table: StudyTable, report: StudyReport) -> list[list[str]]:
    """A row for each cell: its levels, and of each quantity the median, its interval and the coefficient of variation."""
    speedups = report.speedups.get(table.name, [])
    found = []
    for number, cell in enumerate(table.cells):
        levels = [str(cell.levels[name]) for name in table.varied] or [table.name]
        shown = [
            shown_estimate(cell.estimates[name], table.units.get(name, "")) if name in cell.estimates else ("–" if not cell.missing else "")
            for name in table.quantities
        ]
        if cell.missing and shown:
            shown[0] = cell.missing
        speed = [] if not speedups else ["" if (value := speedups[number]) is None else f"{value:.2f}"]
        found.append([*levels, *shown, *speed])
    return found


def sentences(report: StudyReport) -> list[str]:
    """What the study found, and what it lacks."""
    total = sum(len(table.cells) for table in report.tables)
    said = [f"All {total} cells were measured {report.repetitions} times."] if report.complete else []
    if not report.complete:
        said.append(f"{len(report.missing)} of {total} cells are missing, the others were measured {report.repetitions} times.")
    if report.repetitions < LEAST_REPETITIONS:
        said.append("A quick run: too few repetitions for intervals, which are ranges here.")
    said += [_fit(fit.interconnect, fit.alpha, fit.beta, fit.r_squared, fit.holds) for fit in report.fits]
    for best in report.best:
        levels = ", ".join(f"{name} {level}" for name, level in best.levels.items())
        apart = f" It is not told apart from {'; '.join(best.untold)}: the intervals overlap." if best.untold else ""
        said.append(f"Best of {best.among}: {levels}, with {shown_estimate(best.rate, RATE)} samples/s.{apart}")
    return said


def circumstances(report: StudyReport) -> str:
    """The machine, the load, and the versions."""
    where = report.circumstances
    load = f"load {where.load[0]:g} to {where.load[1]:g}; " if where.load else ""
    return f"{where.machine}; {load}" + ", ".join(f"{name} {number}" for name, number in where.versions.items())


def shown_estimate(found: MedianEstimate, unit: str) -> str:
    """The median, its interval, and the coefficient of variation: "612 (590 to 640), CoV 2.1 %"."""
    numbers = [_number(value, unit) for value in (found.median, found.low, found.high)]
    spread = "" if numbers[1] == numbers[2] else f" ({numbers[1]} to {numbers[2]})"
    variation = "" if found.variation is None else f", CoV {100 * found.variation:.1f} %"
    return f"{numbers[0]}{spread}{variation}"


def write_study_page(report: StudyReport, path: Path, command: str) -> Path:
    """Write the page. The same report gives the same bytes. Raises OSError."""
    page = rendered(
        "study.html.jinja",
        title=report.title,
        paper=report.paper,
        note=report.note,
        circumstances=circumstances(report),
        sentences=sentences(report),
        missing=report.missing,
        sections=[(table.name, _about(table), columns(table), rows(table, report), len(table.varied)) for table in report.tables],
        charts=[panel for table in report.tables if (panel := _bars(table)) is not None],
        command=command,
    )
    return written(path, page)


def _about(table: StudyTable) -> str:
    fixed = ", ".join(f"{name} {level}" for name, level in table.fixed.items())
    return f"{table.about}. {f'In all cells: {fixed}.' if fixed and table.varied else ''}".strip()


def _bars(table: StudyTable) -> Panel | None:
    """The median rate of each cell, with its interval as a line; None where nothing has a rate."""
    shown = [(cell.named(table.varied), cell.estimates[RATE]) for cell in table.cells if RATE in cell.estimates][:_MOST_BARS]
    if not shown:
        return None
    data = [{"name": name, "median": each.median, "low": each.low, "high": each.high} for name, each in shown]
    whole: alt.Chart = alt.Chart(alt.InlineData(values=data)).encode(
        y=alt.Y("name:N").sort([name for name, _ in shown]).axis(grid=False, labelLimit=200).title(None)
    )
    bars = whole.mark_bar(height=10, color=ON_A_PAGE.hues[0]).encode(x=alt.X("median:Q").axis(tickCount=5).title("samples per second"))
    lines = whole.mark_rule(color=ON_A_PAGE.soft, strokeWidth=2).encode(x="low:Q", x2="high:Q")
    drawn = alt.LayerChart(layer=[bars, lines])
    about = "Medians of the repetitions; the line is the 95 % interval of the median"
    return panels.finished(f"Samples per second, {table.name}", about, [], drawn, 40 + _BAR * len(shown))


def _fit(name: str, alpha: float, beta: float, r_squared: float, holds: bool) -> str:
    verdict = "" if holds else " That is no α-β model: the times do not lie on the line."
    rate = f"β = {beta:.3g} s/byte ({show_bytes(1 / beta)}/s)" if beta > 0 else f"β = {beta:.3g} s/byte"
    return (
        f"{name}: T = α + β n with α = {show_seconds(alpha) if alpha > 0 else f'{alpha:.3g} s'} and {rate}, R² = {r_squared:.4f}.{verdict}"
    )


def _number(value: float, unit: str) -> str:
    match unit:
        case "s":
            return show_seconds(value)
        case "bytes":
            return show_bytes(value)
        case "bytes/s":
            return f"{show_bytes(value)}/s"
        case "%":
            return f"{value:.0f} %"
        case _:
            return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
