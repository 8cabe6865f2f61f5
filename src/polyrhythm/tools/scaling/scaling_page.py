"""A report on scaling as rows, as sentences, and as one HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import altair as alt

from polyrhythm.tools.report import panels
from polyrhythm.tools.report.panels import Panel
from polyrhythm.tools.report.render import rendered, written
from polyrhythm.tools.report.style import ON_A_PAGE
from polyrhythm.tools.scaling.power_law import LEAST_R_SQUARED
from polyrhythm.tools.scaling.sweep import AGAINST, FamilyLaw, ScalingReport

LAW_COLUMNS = ("family", "what", "against", "α", "95 % interval", "R²", "is it a power law")
_HEIGHT = 280


def law_rows(report: ScalingReport) -> list[list[str]]:
    """A row for each family, quantity and axis."""
    return [[law.family, law.quantity, law.against, *_cells(law)] for law in report.laws]


def _cells(law: FamilyLaw) -> list[str]:
    if law.alpha is None or law.low is None or law.high is None or law.r_squared is None:
        return ["", "", "", law.why_not]
    if law.holds:
        verdict = "yes"
    else:
        verdict = f"no: R² is below {LEAST_R_SQUARED}" if law.r_squared < LEAST_R_SQUARED else "no: α is not told apart from 0"
    return [f"{law.alpha:.3f}", f"{law.low:.3f} to {law.high:.3f}", f"{law.r_squared:.3f}", verdict]


def point_rows(report: ScalingReport) -> list[list[str]]:
    """A row for each size of each family: the mean and the range over the seeds."""
    rows = []
    for family, size in dict.fromkeys((point.family, point.size) for point in report.points):
        own = [point for point in report.points if (point.family, point.size) == (family, size)]
        values = [point.value for point in own]
        shown = f"{fmean(values):.4g}" + (f" ({min(values):.4g} to {max(values):.4g})" if len(values) > 1 else "")
        rows.append([family, size, f"{own[0].parameters:,}", f"{own[0].operations:.3g}", shown])
    return rows


def point_columns(report: ScalingReport) -> Sequence[str]:
    """The titles of `point_rows`."""
    return ("family", "size", "parameters", "operations", report.metric)


def scaling_sentences(report: ScalingReport) -> list[str]:
    """Which exponents are told apart."""
    return [
        f"{pair.first} and {pair.second}: the exponents of {pair.quantity} against {pair.against} are "
        + ("told apart: their intervals are disjoint." if pair.told_apart else "not told apart: their intervals overlap.")
        for pair in report.pairs
    ]


def write_scaling_page(report: ScalingReport, path: Path, command: str) -> Path:
    """Write the page. The same report gives the same bytes. Raises OSError."""
    over = f", less {report.floor:g}" if report.floor else ""
    versions = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    page = rendered(
        "study.html.jinja",
        title=f"{report.metric}{over} against size",
        paper="Tay et al., 2022: Scaling laws vs model architectures",
        note="",
        circumstances=f"one worker, seeds {', '.join(map(str, report.seeds))}; {versions}",
        sentences=scaling_sentences(report),
        missing=[],
        sections=[
            ("Power laws", "y = a x^(-α), by least squares on logarithmic axes; intervals by bootstrap", LAW_COLUMNS, law_rows(report), 3),
            ("Trainings", "Means over the seeds, and the least and the greatest", point_columns(report), point_rows(report), 2),
        ],
        charts=[_chart(report, against) for against in AGAINST],
        command=command,
    )
    return written(path, page)


def _chart(report: ScalingReport, against: str) -> Panel:
    families = list(dict.fromkeys(point.family for point in report.points))
    data = [
        {"name": point.family, "x": float(getattr(point, against)), "y": point.value - report.floor}
        for point in report.points
        if point.value > report.floor
    ]
    lines: list[dict[str, str | float]] = []
    for law in report.laws:
        if (law.quantity, law.against) == (report.metric, against) and law.coefficient is not None and law.alpha is not None:
            own = [float(getattr(point, against)) for point in report.points if point.family == law.family]
            lines += [{"name": law.family, "x": x, "y": law.coefficient * math.pow(x, -law.alpha)} for x in (min(own), max(own))]
    hues = [ON_A_PAGE.hues[index % len(ON_A_PAGE.hues)] for index in range(len(families))]
    colour = alt.Color("name:N").scale(domain=families, range=hues).legend(alt.Legend(title=None, orient="bottom"))
    x = alt.X("x:Q").scale(type="log").axis(format="~s", tickCount=6).title(against)
    y = alt.Y("y:Q").scale(type="log", zero=False).axis(tickCount=6).title(report.metric)
    dots = alt.Chart(alt.InlineData(values=data)).mark_point(filled=True, size=36).encode(x=x, y=y, color=colour)
    drawn = alt.LayerChart(layer=[dots, alt.Chart(alt.InlineData(values=lines)).mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour)])
    return panels.finished(f"{report.metric} against {against}", "Each training, and the law of each family", [], drawn, _HEIGHT)
