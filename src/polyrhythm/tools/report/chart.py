"""Charts as data: lines of points with a title and axes, for notebooks and for the page alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from polyrhythm.core.records.metrics import Measured, Target, curve_of, higher_is_better, show_metric
from polyrhythm.tools.report.series import Series, is_virtual

MOST_POINTS = 500
_WIDE_TIMES = 6.0
_WIDE_BYTES = 30.0


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One run's points; `clocks` are worker 0's steps."""

    series: Series
    x: list[float]
    y: list[float]
    clocks: list[int]

    def thinned(self, most: int) -> ChartLine:
        """The same line with at most `most` evenly chosen points, the first and the last among them."""
        count = len(self.x)
        if count <= most:
            return self
        chosen = [round(index * (count - 1) / (most - 1)) for index in range(most)]
        return ChartLine(self.series, [self.x[i] for i in chosen], [self.y[i] for i in chosen], [self.clocks[i] for i in chosen])


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines with titles and notes; x is in bytes where `in_bytes`, else in seconds, and its axis is logarithmic where `log`."""

    title: str
    subtitle: str
    x_title: str
    metric: str
    in_bytes: bool
    log: bool
    lines: list[ChartLine]
    goal: float | None = None
    notes: list[str] = field(default_factory=list)

    def thinned(self, most: int) -> Chart:
        """The same chart with at most `most` points in a line."""
        return replace(self, lines=[line.thinned(most) for line in self.lines])


def over_time(series: Sequence[Series], metric: str, target: Target | None = None, most: int = MOST_POINTS) -> Chart:
    """`metric` against the seconds since the run began; logarithmic where some runs take far longer than others."""
    lines = _lines(series, metric, lambda report: report.time)
    log = _wide([line.x[-1] for line in lines if line.x[-1] > 0], _WIDE_TIMES)
    virtual = {is_virtual(one.outcome) for one in series}
    time = {frozenset({True}): "virtual time", frozenset({False}): "time"}.get(frozenset(virtual), "time, real or virtual as labelled")
    title = f"{_capital(metric)} against {time}"
    return _finished(Chart(title, "", f"{'virtual ' * (virtual == {True})}seconds", metric, False, log, lines), target, most)


def over_bytes(series: Sequence[Series], metric: str, target: Target | None = None, most: int = MOST_POINTS) -> Chart:
    """`metric` against the bytes that all workers and servers together had sent."""
    lines = _lines(series, metric, lambda report: float(report.bytes_sent))
    log = _wide([x for line in lines for x in line.x if x > 0], _WIDE_BYTES)
    return _finished(
        Chart(f"{_capital(metric)} against bytes sent", "", "bytes sent by all together", metric, True, log, lines), target, most
    )


def _finished(raw: Chart, target: Target | None, most: int) -> Chart:
    """The chart with thinned lines, titles and notes."""
    # A logarithmic axis has no place for 0: a note under the chart names what is left out.
    drawn = [kept for line in raw.lines if (kept := _positive(line) if raw.log else line).x]
    missing = [line for line in raw.lines if line.series not in [kept.series for kept in drawn]]
    notes = _silent(missing) if raw.in_bytes else []
    aim = target if target is not None and target.metric == raw.metric else None
    higher = higher_is_better(raw.metric) if aim is None else aim.higher_is_better
    parts = [] if higher is None else [f"{'higher' if higher else 'lower'} is better"]
    parts += [f"the dotted line is the target, {aim.value:g}"] if aim is not None else []
    parts += ["logarithmic scale"] if raw.log else []
    goal = aim.value if aim is not None else None
    return replace(raw, subtitle=_capital("; ".join(parts)), lines=drawn, goal=goal, notes=notes).thinned(most)


def _silent(missing: list[ChartLine]) -> list[str]:
    """A sentence for each name that has no place on a logarithmic axis of bytes."""
    notes = []
    for name in dict.fromkeys(line.series.name for line in missing):
        lines = [line for line in missing if line.series.name == name]
        why = (
            "sent nothing"
            if all(line.series.outcome.summary.bytes_sent == 0 for line in lines)
            else "reported before its bytes were counted"
        )
        least, most = (show_metric(choose(line.y[-1] for line in lines)) for choose in (min, max))
        last = f"its last value: {least}" if least == most else f"its last values: {least} to {most}"
        notes.append(f"{name} {why}, so it is not drawn; {last}.")
    return notes


def _lines(series: Sequence[Series], metric: str, x: Callable[[Measured], float]) -> list[ChartLine]:
    lines = []
    for one in series:
        reports = curve_of(one.outcome, metric)
        if reports:
            lines.append(
                ChartLine(
                    one, [x(report) for report in reports], [report.metrics[metric] for report in reports], [r.clock for r in reports]
                )
            )
    return lines


def _positive(line: ChartLine) -> ChartLine:
    """The points that have a place on a logarithmic axis: not those at 0, nor the state before the first step."""
    kept = [index for index, x in enumerate(line.x) if x > 0 and (line.clocks[index] > 0 or not any(line.clocks))]
    return ChartLine(line.series, [line.x[i] for i in kept], [line.y[i] for i in kept], [line.clocks[i] for i in kept])


def _wide(values: list[float], factor: float) -> bool:
    return bool(values) and max(values) > factor * min(values)


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
