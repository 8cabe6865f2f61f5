"""A proxy plan as one HTML page: the answer, where each figure comes from, and the law through the small models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import altair as alt

from polyrhythm.tools.planner.proxy.proxy_plan import ProxyPlan
from polyrhythm.tools.planner.proxy.proxy_words import (
    CHOICE_COLUMNS,
    ORIGIN_COLUMNS,
    SIZE_COLUMNS,
    choice_rows,
    origin_rows,
    proxy_sentences,
    refused_lines,
    size_rows,
)
from polyrhythm.tools.report import panels
from polyrhythm.tools.report.panels import Panel
from polyrhythm.tools.report.render import rendered, written
from polyrhythm.tools.report.style import ON_A_PAGE

_HEIGHT = 280
_POINTS = 24


def write_proxy_page(plan: ProxyPlan, path: Path, asked: str = "") -> Path:
    """Write the page of `plan`; `asked` is the command that makes it again. The same plan gives the same bytes. Raises OSError."""
    best = plan.best
    run = [["to run it", best.command], ["in virtual time", best.rehearsal], ["in Python", best.code]] if best else []
    page = rendered(
        "study.html.jinja",
        title=f"A plan by proxies for {plan.job}: {plan.target}",
        paper="",
        note="",
        circumstances=f"on the network {plan.network} with {plan.devices}; {plan.parameters:,} parameters, which were not trained; "
        f"{plan.runs + plan.kept} runs of smaller models in virtual time; seeds {', '.join(map(str, plan.seeds))}",
        sentences=proxy_sentences(plan),
        missing=refused_lines(plan),
        sections=[
            ("Methods", "Bounds contain nine of ten further runs; exponents have 95 % intervals", CHOICE_COLUMNS, choice_rows(plan), 1),
            ("Commands", "of the first choice", ("", "command"), [row for row in run if row[1]], 2),
            ("Sizes", "One machine alone, with its tuned rate", SIZE_COLUMNS, size_rows(plan), 1),
            ("Where the figures come from", "Measured, derived from that, or assumed", ORIGIN_COLUMNS, origin_rows(plan), 3),
        ],
        charts=[_chart(plan)] if plan.choices else [],
        command=asked,
    )
    return written(path, page)


def _chart(plan: ProxyPlan) -> Panel:
    names = list(dict.fromkeys(each.name for each in plan.choices))
    dots = [{"name": each.method, "x": each.parameters, "y": each.samples} for each in plan.points if each.samples and each.method in names]
    ends = [
        {"name": each.name, "x": plan.parameters, "y": each.samples.middle, "low": each.samples.low, "high": each.samples.high}
        for each in plan.choices
    ]
    hues = [ON_A_PAGE.hues[index % len(ON_A_PAGE.hues)] for index in range(len(names))]
    colour = alt.Color("name:N").scale(domain=names, range=hues).legend(alt.Legend(title=None, orient="bottom"))
    x = alt.X("x:Q").scale(type="log").axis(format="~s", tickCount=6).title("parameters")
    y = alt.Y("y:Q").scale(type="log", zero=False).axis(format="~s", tickCount=6).title(f"samples to {plan.target}")
    measured = alt.Chart(alt.InlineData(values=dots)).mark_point(filled=True, size=36).encode(x=x, y=y, color=colour)
    derived = alt.Chart(alt.InlineData(values=ends)).mark_point(shape="diamond", size=64).encode(x=x, y=y, color=colour)
    bars = alt.Chart(alt.InlineData(values=ends)).mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    law = alt.Chart(alt.InlineData(values=_line(plan))).mark_line(strokeWidth=1, color=ON_A_PAGE.soft).encode(x=x, y=y)
    drawn = alt.LayerChart(layer=[measured, derived, bars, law])
    return panels.finished(
        "Samples and parameters",
        "Small models as measured (dots), the true one as derived (diamonds), one machine's law",
        [],
        drawn,
        _HEIGHT,
    )


def _line(plan: ProxyPlan) -> Sequence[dict[str, float]]:
    law = plan.law
    if law is None:
        return []
    low, high = math.log(plan.sizes[0].parameters), math.log(plan.parameters)
    across = [math.exp(low + (high - low) * place / _POINTS) for place in range(_POINTS + 1)]
    return [{"x": x, "y": law.least.middle + law.coefficient * math.pow(x, -law.exponent.middle)} for x in across]
