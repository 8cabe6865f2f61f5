"""A simulated site that serves models, as tables and as a page: outcomes and latencies by session, and the plans that were followed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import altair as alt

from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.serving import ServedLoad, ServingPlan, WeakPoint, headroom, weak_points
from polyrhythm.serving.duty_cycle import MOST_GROWTH
from polyrhythm.tools.report import layers, panels
from polyrhythm.tools.report.panels import Panel
from polyrhythm.tools.report.render import rendered, written
from polyrhythm.tools.report.style import ON_A_PAGE

PLAN_COLUMNS = ("machine", "kind", "session", "model", "batch", "takes", "duty", "rate", "occupancy", "memory", "headroom", "breaks first")
SESSION_COLUMNS = ("session", "requests", "good", "late", "dropped", "rejected", "p50", "p99")
_GOOD = 0.99
_SLICES = 60
_HEIGHT = 220


def plan_rows(made: ServingPlan) -> list[list[str]]:
    """A row for each slot; what belongs to the machine stands in the first of its rows."""
    weakest = {point.session: point for point in weak_points(made)}
    rows = []
    for each in made.machines:
        factor = headroom(each)
        for index, slot in enumerate(each.slots):
            point = weakest[slot.session]
            limit = _limit(point) if point.machine == each.machine.name else ""
            shared = [f"{each.occupancy:.0%}", f"{show_bytes(each.nbytes)} of {show_bytes(each.machine.memory)}", _times(factor)]
            rows.append(
                [
                    *([each.machine.name, each.machine.kind] if index == 0 else ["", ""]),
                    *(slot.session, slot.model, str(slot.batch), show_seconds(slot.seconds), show_seconds(each.duty), f"{slot.rate:.4g}/s"),
                    *(shared if index == 0 else ["", "", ""]),
                    limit,
                ]
            )
    return rows


def unserved_sentences(made: ServingPlan) -> list[str]:
    """A sentence for each session that is not served, or not whole."""
    return [f"{one.session}: {one.reason}" for one in made.unserved]


def unpromised_sentences(played: ServedLoad) -> list[str]:
    """A sentence for each session that the first plan does not serve whole, and that was answered in time all the same."""
    tally = played.tally()
    names = dict.fromkeys(one.session for one in played.plans[0][2].unserved)
    return [
        f"{name}: {tally[name].good_rate:.1%} was good all the same: this load left unused what the first plan keeps free, or a later plan "
        "served it. A plan is a promise for any load of its rates, and this is one load."
        for name in names
        if name in tally and tally[name].good_rate >= _GOOD
    ]


def weakest_sentences(made: ServingPlan) -> list[str]:
    """The sentence about what breaks first; none where nothing is served."""
    points = weak_points(made)
    if points and points[0].factor >= MOST_GROWTH:
        return [f"Each session can grow to {MOST_GROWTH:g} times its planned rate, or more, if the others stay as they are."]
    return [
        f"{first.session} breaks first: beyond {first.factor:.2f} times its planned rate {first.machine} lacks {first.limit}, if the "
        "other sessions stay as they are."
        for first in points[:1]
    ]


def _times(factor: float) -> str:
    """A factor of growth; those above the greatest that is looked for are not known."""
    return f"×{factor:.2f}" if round(factor, 2) < MOST_GROWTH else f"×{MOST_GROWTH:g} or more"


def _limit(point: WeakPoint) -> str:
    return _times(point.factor) + (f", {point.limit}" if point.factor < MOST_GROWTH else "")


def session_rows(played: ServedLoad) -> list[list[str]]:
    """A row of outcomes and latencies for each session."""
    rows = []
    for name, each in played.tally().items():
        latencies = [each.percentile(percent) for percent in (50, 99)]
        dropped = ", ".join(f"{count} {reason}" for reason, count in each.dropped.items()) or "0"
        counts = [str(each.offered), f"{each.good_rate:.2%}", str(each.late), dropped, str(each.rejected)]
        rows.append([name, *counts, *("" if one is None else show_seconds(one) for one in latencies)])
    return rows


def write_serving_page(played: ServedLoad, path: Path, seconds: float, command: str) -> Path:
    """Write the page of a simulated load to `path`. The same load gives the same bytes."""
    changes = [[f"{moment:.0f} s", reason, str(len(made.machines)), f"{made.cost:g}"] for moment, reason, made in played.plans]
    last = played.plans[-1][2]
    page = rendered(
        "serving.html.jinja",
        title="Serving in virtual time",
        circumstances=f"{len(played.requests)} requests in {seconds:g} virtual seconds",
        sentences=[*unserved_sentences(last), *weakest_sentences(last)],
        session_columns=SESSION_COLUMNS,
        sessions=session_rows(played),
        charts=[_good_over_time(played, seconds), _latencies(played)],
        plan_columns=PLAN_COLUMNS,
        plan=plan_rows(last),
        changes=changes,
        command=command,
    )
    return written(path, page)


def _good_over_time(played: ServedLoad, seconds: float) -> Panel:
    width = seconds / _SLICES
    rows = [
        {"name": name, "x": width * index, "y": each.good_rate}
        for index in range(_SLICES)
        for name, each in played.tally(width * index, width * (index + 1)).items()
    ]
    names = sorted({str(row["name"]) for row in rows})
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X("x:Q").axis(tickCount=6).title("virtual seconds"),
            y=alt.Y("y:Q").scale(domain=[0, 1]).axis(format="%", tickCount=5).title(None),
            color=_hues(names),
            tooltip=["name:N", alt.Tooltip("y:Q", format=".1%", title="good")],
        )
    )
    about = f"The part of the requests due within {width:.3g} s that was answered in time"
    return panels.finished("Good answers over time", about, [], alt.LayerChart(layer=[lines]), _HEIGHT)


def _latencies(played: ServedLoad) -> Panel:
    rows = [
        {"name": name, "x": value, "y": percent / 100}
        for name, each in played.tally().items()
        for percent in (*range(0, 100, 2), 99, 99.9)
        if (value := each.percentile(percent)) is not None
    ]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("x:Q").axis(labelExpr=layers.IN_SECONDS, tickCount=6).title("latency from the due moment"),
            y=alt.Y("y:Q").scale(domain=[0, 1]).axis(format="%", tickCount=5).title(None),
            color=_hues(sorted({str(row["name"]) for row in rows})),
            tooltip=["name:N", alt.Tooltip("x:Q", title="seconds"), alt.Tooltip("y:Q", format=".1%", title="of requests")],
        )
    )
    about = "The part of the computed requests of each session that had at most that latency"
    return panels.finished("Latencies", about, [], alt.LayerChart(layer=[lines]), _HEIGHT)


def _hues(names: Sequence[str]) -> alt.Color:
    hues = [ON_A_PAGE.hues[index % len(ON_A_PAGE.hues)] for index in range(len(names))]
    return alt.Color("name:N").scale(domain=list(names), range=hues).legend(alt.Legend(title=None, orient="bottom"))
