"""Who was there when: from when to when each worker of a run took part, by the run's events.

Pages draw it where it says something: where workers joined, left or were lost. Traces count the workers by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from polyrhythm.core.kernel.events import CrewChanged, Ended, Faulted, Restarted, Started
from polyrhythm.core.kernel.names import is_worker, rank_of
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.units import show_seconds
from polyrhythm.tools.report import layers, panels
from polyrhythm.tools.report.panels import Panel
from polyrhythm.tools.report.series import Series
from polyrhythm.tools.report.style import ON_A_PAGE

ENDED, LEFT, LOST = "to the end", "left", "lost"
"""How a worker's time ends."""
_MOST = 32
_ROW = 16
_SUBTITLE = "A bar for each worker, from when to when it took part, in the order in which they came; paler where it was lost"


@dataclass(frozen=True, slots=True)
class Presence:
    """The seconds from `begin` to `end` in which `worker` took part, and how they ended; `joined` if the run was under way before."""

    worker: str
    begin: float
    end: float
    how: str
    joined: bool


def presences(outcome: Outcome) -> list[Presence]:
    """Those of all workers, by rank; a worker that was started again has several."""
    since, found, lost, joined = dict[str, float](), list[Presence](), set(outcome.summary.lost), set[str]()

    def close(name: str, time: float, how: str) -> None:
        if name in since:
            found.append(Presence(name, since.pop(name), time, how, name in joined))

    relevant = [event for event in outcome.events if isinstance(event, Started | CrewChanged | Faulted | Restarted | Ended)]
    for event in sorted(relevant, key=lambda event: event.time):
        match event:
            case Started(actor=name) if is_worker(name):
                since.setdefault(name, event.time)
            case CrewChanged():
                for name in event.left:
                    close(name, event.time, LOST if name in lost else LEFT)
                joined.update(event.joined)
                since.update(dict.fromkeys(event.joined, event.time))  # until then they have waited to be admitted
            case Faulted(actor=name) if name in lost:
                close(name, event.time, LOST)
            case Restarted(actor=name):
                close(name, event.time, LOST)
            case Ended(actor=name):
                close(name, event.time, ENDED)
    for name in list(since):
        close(name, max(since[name], outcome.time or 0.0), ENDED)
    return sorted(found, key=lambda each: (rank_of(each.worker), each.begin))


def changes(found: Sequence[Presence]) -> bool:
    """True if workers have come or gone before the end of the run."""
    return any(each.joined or each.how != ENDED for each in found)


def counted(found: Sequence[Presence]) -> list[tuple[float, int]]:
    """The number of workers from each time on at which it has changed; the last of several changes at one time."""
    steps = sorted([(each.begin, 1) for each in found] + [(each.end, -1) for each in found if each.how != ENDED])
    number, numbers = 0, dict[float, int]()
    for time, change in steps:
        number += change
        numbers[time] = number
    return list(numbers.items())


def present(group: Sequence[Series]) -> list[Panel]:
    """A chart for each system whose workers have changed, of the first such run."""
    drawn = dict[str, Panel]()
    for one in group:
        if one.name not in drawn and changes(found := presences(one.outcome)):
            drawn[one.name] = _panel(one, found)
    return list(drawn.values())


def _panel(one: Series, found: Sequence[Presence]) -> Panel:
    workers = list(dict.fromkeys(each.worker for each in sorted(found, key=lambda each: each.begin if each.joined else 0.0)))
    shown = workers[:_MOST]
    rows = [{"name": one.name, **_row(each)} for each in found if each.worker in shown]
    bars: alt.Chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height=8)
        .encode(
            x=alt.X("from:Q").scale(zero=True).axis(labelExpr=layers.IN_SECONDS, tickCount=6).title("seconds"),
            x2="to:Q",
            y=alt.Y("worker:N").sort(shown).axis(grid=False, labelLimit=140).title(None),
            color=layers.hues([one], ON_A_PAGE),
            opacity=alt.Opacity("opacity:Q").scale(None),
            tooltip=["worker:N", "when:N", alt.Tooltip("how:N", title="how it ended")],
        )
    )
    notes = [f"The other {len(workers) - _MOST} of {len(workers)} workers are not shown."] * (len(workers) > _MOST)
    return panels.finished(f"Who was there: {one.label}", _SUBTITLE, notes, alt.LayerChart(layer=[bars]), 40 + _ROW * len(shown))


def _row(each: Presence) -> dict[str, str | float]:
    when = f"{show_seconds(each.begin)} – {show_seconds(each.end)}"
    pale = 0.45 if each.how == LOST else 1.0
    return {"worker": each.worker, "from": each.begin, "to": each.end, "when": when, "how": each.how, "opacity": pale}
