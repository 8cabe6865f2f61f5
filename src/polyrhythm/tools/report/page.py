"""The comparison as one HTML file that needs nothing else: no network, and for reading it no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.core.records.metrics import Target, metrics_of
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report import panels
from polyrhythm.tools.report.adjustments import decided
from polyrhythm.tools.report.chart import over_bytes, over_time
from polyrhythm.tools.report.communication import communication_tables
from polyrhythm.tools.report.each_worker import each_worker
from polyrhythm.tools.report.grid import Grid
from polyrhythm.tools.report.memory_table import memory_tables
from polyrhythm.tools.report.panels import Panel
from polyrhythm.tools.report.presence import present
from polyrhythm.tools.report.render import rendered, written
from polyrhythm.tools.report.rows import Sheet, sheet
from polyrhythm.tools.report.run_table import RunTable
from polyrhythm.tools.report.sentence import sentence
from polyrhythm.tools.report.series import Series, by_runtime, circumstances, heading, is_virtual, series_of
from polyrhythm.tools.report.shares import shares_of

_CHARTED_METRICS = 2
_POINTS = 8_000
_DECIDED_LINES = 24
_WORKERS = 16
_LINES = 24


@dataclass(frozen=True, slots=True)
class Section:
    """The section of the page about the runs in one runtime."""

    heading: str
    circumstances: str
    unit: str
    summary: str
    once: bool
    names: list[Series]
    curves: list[Panel]
    cells: Sheet
    shares: Panel | None
    workers: list[RunTable]
    communication: list[RunTable]
    memory: list[RunTable]
    runs: list[tuple[str, dict[str, str]]]


def write(
    outcomes: Sequence[Outcome],
    path: str | Path,
    title: str,
    target: Target | None = None,
    command: str | None = None,
    tried: Grid | None = None,
) -> Path:
    """Write the page that compares `outcomes` to `path`; `command` is the line that would make it again, `tried` what came before.

    The same outcomes give the same bytes: the page carries no date. Raises OSError; a page that was there is then as it was.
    """
    return written(path, page(outcomes, title, target, command, tried))


def page(
    outcomes: Sequence[Outcome], title: str, target: Target | None = None, command: str | None = None, tried: Grid | None = None
) -> str:
    """The whole page as text."""
    groups = by_runtime(series_of(outcomes))
    most = _points(groups)
    return rendered(
        "page.html.jinja",
        title=title,
        runs=len(outcomes),
        target=target,
        command=command,
        tried=tried,
        nothing=sentence(outcomes, target),
        sections=[_section(group, target, most) for group in groups],
    )


def _points(groups: Sequence[Sequence[Series]]) -> int:
    """The number of points that a line may have, so that the whole page stays small."""
    lines = sum(len(group) for group in groups) * 2 * _CHARTED_METRICS
    return max(20, min(500, _POINTS // max(1, lines)))


def _section(group: list[Series], target: Target | None, most: int) -> Section:
    outcomes = [one.outcome for one in group]
    metrics = metrics_of(outcomes)[:_CHARTED_METRICS]
    if target is not None and target.metric in metrics_of(outcomes):
        metrics = list(dict.fromkeys([target.metric, *metrics]))[:_CHARTED_METRICS]
    charts = [draw(group, metric, target, most) for metric in metrics for draw in (over_time, over_bytes)]
    shares = shares_of(group)
    drawn = [one for one in group if one.outcome.events]
    return Section(
        heading(group),
        circumstances(group),
        "virtual seconds: what the simulated machines and network would take" if is_virtual(outcomes[0]) else "real seconds",
        sentence(outcomes, target),
        len(group) > 1 and len({one.outcome.summary.system for one in group}) == len(group),
        list({one.name: one for one in drawn}.values()),
        [panels.curves(chart) for chart in charts if chart.lines]
        + [panels.adjusted(setting, lines) for setting, lines in decided(group, _DECIDED_LINES).items()]
        + present(group),
        sheet(group, target),
        panels.shared_out(shares) if shares else None,
        each_worker(group, _WORKERS),
        communication_tables(group, _LINES),
        memory_tables(group, _WORKERS),
        [(one.label, _facts(one)) for one in group],
    )


def _facts(one: Series) -> dict[str, str]:
    summary = one.outcome.summary
    facts = {"system": summary.system, "workers": str(summary.workers), "on": summary.on, "network": summary.network or "none described"}
    facts |= {"seed": str(summary.seed)} | one.outcome.settings
    facts |= {f"final {name}": f"{value:.6g}" for name, value in summary.final.items()}
    if summary.weights_sha256 is not None:
        facts["weights sha256"] = summary.weights_sha256
    return facts | ({"error": summary.error} if summary.error is not None else {})
