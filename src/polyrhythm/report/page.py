"""The comparison as one HTML file that needs nothing else: no network, and for reading it no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from plotly.offline import get_plotlyjs

from polyrhythm.report.chart import Chart, over_bytes, over_time
from polyrhythm.report.gantt import timelines
from polyrhythm.report.metrics import Target, metrics_of
from polyrhythm.report.outcome import Outcome, versions
from polyrhythm.report.plot import figure
from polyrhythm.report.rows import sheet
from polyrhythm.report.sentence import sentence
from polyrhythm.report.series import Series, by_runtime, circumstances, heading, is_virtual, series_of
from polyrhythm.report.static import draw, swatch
from polyrhythm.report.style import SCRIPT, STYLE

_CHARTED_METRICS = 2
_POINTS = 12_000
# The page may do nothing but what is written in it, whatever a name or a library contains.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def write(outcomes: Sequence[Outcome], path: str | Path, title: str, target: Target | None = None, command: str | None = None) -> Path:
    """Write the page that compares `outcomes` to `path`; `command` is the line that would make it again.

    The same outcomes give the same bytes: the page carries no date.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(outcomes, title, target, command), encoding="utf-8", newline="\n")
    return file


def page(outcomes: Sequence[Outcome], title: str, target: Target | None = None, command: str | None = None) -> str:
    """The whole page as text."""
    groups = by_runtime(series_of(outcomes))
    sections = "\n".join(_section(group, target, _points(groups)) for group in groups) or f"<p>{escape(sentence(outcomes, target))}</p>"
    reproduce = f"<h2>To make this again</h2><pre>{escape(command)}</pre>" if command else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="by">{escape(_count(outcomes, target))}</p>
{sections}
{reproduce}
<h2>Settings and versions</h2>
{_settings(groups)}
</main>
<script>{get_plotlyjs()}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _count(outcomes: Sequence[Outcome], target: Target | None) -> str:
    runs = f"{len(outcomes)} run{'s' * (len(outcomes) != 1)} of Polyrhythm"
    return f"{runs}, target {target}" if target is not None else runs


def _points(groups: Sequence[Sequence[Series]]) -> int:
    """How many points a line may have, so that the whole page stays small."""
    lines = sum(len(group) for group in groups) * 2 * _CHARTED_METRICS
    return max(20, min(500, _POINTS // max(1, lines)))


def _section(group: list[Series], target: Target | None, most: int) -> str:
    outcomes = [one.outcome for one in group]
    unit = "virtual seconds: what the simulated machines and network would take" if is_virtual(outcomes[0]) else "real seconds"
    metrics = metrics_of(outcomes)[:_CHARTED_METRICS]
    if target is not None and target.metric in metrics_of(outcomes):
        metrics = list(dict.fromkeys([target.metric, *metrics]))[:_CHARTED_METRICS]
    charts = [draw_over(group, metric, target, most) for metric in metrics for draw_over in (over_time, over_bytes)]
    drawn = "".join(_chart(chart) for chart in charts if chart.lines)
    once = len(group) > 1 and len({one.outcome.summary.system for one in group}) == len(group)
    caution = '<p class="caution">One run of each: small differences may be chance.</p>' if once else ""
    return f"""<section>
<h2>{heading(group)}</h2>
<p>{escape(circumstances(group))}; times are {unit}.</p>
<p class="says">{escape(sentence(outcomes, target))}</p>
{caution}
<div class="chips">{"".join(_chip(one) for one in group if one.outcome.events)}</div>
<p class="legend hint" hidden>Press a name to hide it, point at a line for its numbers.
<span class="mouse">Drag to zoom, double-click to see all.</span></p>
<div class="charts">{drawn or "<p>No run reported a metric.</p>"}</div>
{_table(group, target)}
{timelines(group)}
</section>"""


def _chip(one: Series) -> str:
    return f'<button type="button" disabled aria-pressed="true" data-chip="{one.place}">{swatch(one)}{escape(one.label)}</button>'


def _chart(chart: Chart) -> str:
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in chart.notes)
    return (
        f'<div class="chart"><h3>{escape(chart.title)}</h3><p>{escape(chart.subtitle)}</p><div class="canvas">{draw(chart)}'
        f'<script type="application/json">{_figure(chart)}</script></div>{notes}</div>'
    )


def _figure(chart: Chart) -> str:
    """The plotly figure as JSON that cannot end the element it stands in; title and legend are the page's own."""
    made = figure(chart)
    made.update_layout(title=None, showlegend=False, margin={"l": 46, "r": 12, "t": 8, "b": 46})
    text: str = made.to_json()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _table(group: Sequence[Series], target: Target | None) -> str:
    cells = sheet(group, target)
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in cells.columns)
    body = "".join(
        f'<tr{" class=failed" if one.failed else ""}><th scope="row">{swatch(one)}{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row, one in zip(cells.rows, cells.order, strict=True)
    )
    remarks = "".join(f'<p class="remark">{escape(remark)}</p>' for remark in cells.remarks)
    return f'<h3>All numbers</h3><div class="wide"><table><tr>{head}</tr>{body}</table></div>{remarks}'


def _settings(groups: Sequence[Sequence[Series]]) -> str:
    versioned = _list(versions())
    runs = "".join(
        f"<details><summary>{escape(one.label)}, {heading(group).lower()}</summary>{_list(_facts(one))}</details>"
        for group in groups
        for one in group
    )
    return (
        f"<details><summary>Settings of each run</summary>{runs}</details>"
        f"<details open><summary>Versions of what wrote this page</summary>{versioned}</details>"
    )


def _facts(one: Series) -> dict[str, str]:
    summary = one.outcome.summary
    facts = {"system": summary.system, "workers": str(summary.workers), "on": summary.on, "network": summary.network or "none described"}
    facts |= {"seed": str(summary.seed)} | one.outcome.settings
    facts |= {f"final {name}": f"{value:.6g}" for name, value in summary.final.items()}
    if summary.weights_sha256 is not None:
        facts["weights sha256"] = summary.weights_sha256
    return facts | ({"error": summary.error} if summary.error is not None else {})


def _list(facts: dict[str, str]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()) + "</dl>"
