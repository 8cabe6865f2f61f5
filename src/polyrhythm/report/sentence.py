"""What a comparison means, in one or two plain sentences that are true in every case."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyrhythm.report.metrics import Measured, Target, better, higher_is_better, primary_metric, reports_of, show_metric
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.rows import ending
from polyrhythm.report.series import Series, by_runtime, heading, is_virtual, series_of
from polyrhythm.units import show_bytes, show_seconds

_BASELINES = ("allreduce", "single")


def sentence(outcomes: Sequence[Outcome], target: Target | None = None) -> str:
    """Who was first at the target (or ended best and soonest), who sent the fewest bytes, by what factor, and who failed."""
    groups = by_runtime(series_of(outcomes))
    if not groups:
        return "There are no runs to compare."
    if len(groups) == 1:
        return _about(groups[0], target)
    return " ".join(f"{heading(group)}: {_about(group, target)}" for group in groups)


def _about(group: list[Series], target: Target | None) -> str:
    ended = [one for one in group if not one.failed]
    failed = [one for one in group if one.failed]
    if not ended and len(failed) == 1:
        return _stopped(ending(failed[0]))
    what = "did not end" if any(one.unended for one in failed) else "failed"
    if not ended:
        return f"All {len(failed)} runs {what}: {_names(failed)}."
    return _told(ended, target) + (f" {_names(failed)} {what} and {'is' if len(failed) == 1 else 'are'} not compared." if failed else "")


def _told(ended: list[Series], target: Target | None) -> str:
    if len(ended) == 1:
        return _alone(ended[0], target)
    return _finish(ended) if target is None else _race(ended, target)


def _alone(one: Series, target: Target | None) -> str:
    summary = one.outcome.summary
    reached = target.first_reached(one.outcome) if target is not None else None
    if reached is not None:
        return f"{one.label} reached {target} {_at(one, reached)}."
    metric = target.metric if target is not None else primary_metric([one.outcome])
    value = summary.final.get(metric) if metric is not None else None
    missed = f"did not reach {target}; it " if target is not None else ""
    ending = f"ended with {metric} {show_metric(value)}" if value is not None else "ended"
    return f"{one.label} {missed}{ending} after {_seconds(one, one.outcome.time)} and {show_bytes(summary.bytes_sent)} sent."


def _race(ended: list[Series], target: Target) -> str:
    reached = [(one, report) for one in ended if (report := target.first_reached(one.outcome)) is not None]
    if not reached:
        return _nobody(ended, target)
    missed = [one for one in ended if one not in [racer for racer, _ in reached]]
    others = f" {_names(missed)} did not reach it." if missed else ""
    if len(reached) == 1:
        one, report = reached[0]
        return f"Only {one.label} reached {target}, {_at(one, report)}.{others}"
    racers = [one for one, _ in reached]
    reports: dict[int, Measured] = {id(one): report for one, report in reached}
    first = _first(racers, lambda one: reports[id(one)].time, f"reached {target}")
    senders = [one for one in racers if reports[id(one)].bytes_sent > 0]
    return f"{first}.{_bytes(racers, senders, lambda one: reports[id(one)].bytes_sent, 'up to there')}{others}"


def _nobody(ended: list[Series], target: Target) -> str:
    best = {
        id(one): better(target.metric, values)
        for one in ended
        if (values := [report.metrics[target.metric] for report in reports_of(one.outcome) if target.metric in report.metrics])
    }
    if not best:
        return f"None of the {len(ended)} runs reported {target.metric}, so none reached {target}."
    nearest = show_metric(better(target.metric, best.values()))
    closest = [one for one in ended if id(one) in best and show_metric(best[id(one)]) == nearest]
    return f"None of the {len(ended)} runs reached {target}; {_names(closest)} came closest, with {nearest}."


def _finish(ended: list[Series]) -> str:
    first = _first(ended, lambda one: one.outcome.time, "finished")
    senders = [one for one in ended if one.outcome.summary.bytes_sent > 0]
    uneven = len({one.outcome.summary.samples for one in ended}) > 1
    caution = " They did not all use the same number of samples: see the table." if uneven else ""
    return f"{_best(ended)}{first}.{_bytes(ended, senders, lambda one: one.outcome.summary.bytes_sent, 'in all')}{caution}"


def _best(ended: list[Series]) -> str:
    metric = primary_metric(one.outcome for one in ended)
    values = {id(one): one.outcome.summary.final[metric] for one in ended if metric is not None and metric in one.outcome.summary.final}
    if metric is None or not values:
        return ""
    top = show_metric(better(metric, values.values()))
    winners = [one for one in ended if id(one) in values and show_metric(values[id(one)]) == top]
    if len(winners) == len(ended):
        return f"All {len(ended)} runs ended with {metric} {top}. "
    baseline = _baseline([one for one in ended if id(one) in values], winners)
    against = f" ({baseline.label}: {show_metric(values[id(baseline)])})" if baseline is not None else ""
    return f"{_names(winners)} ended with the {'highest' if higher_is_better(metric) else 'lowest'} {metric}, {top}{against}. "


def _first(racers: list[Series], time: Callable[[Series], float], did: str) -> str:
    soonest = min(time(one) for one in racers)
    # What reads the same is called a tie: the digits beyond do not decide anything.
    winners = [one for one in racers if show_seconds(time(one)) == show_seconds(soonest)]
    taken = _seconds(winners[0], soonest)
    if len(winners) == len(racers):
        return f"{_names(winners)} {did} at the same time, after {taken}"
    baseline = _baseline(racers, winners)
    ratio = _ratio(time(baseline), soonest) if baseline is not None else None
    against = f", {ratio} times as fast as {baseline.label}" if baseline is not None and ratio is not None else ""
    return f"{_names(winners)} {did} first, after {taken}{against}"


def _bytes(racers: list[Series], senders: list[Series], nbytes: Callable[[Series], float], when: str) -> str:
    silent = [one for one in racers if one.outcome.summary.bytes_sent == 0]
    if len(silent) == len(racers):
        return " None of them sent anything."
    if len(senders) < 2 or len(senders) + len(silent) < len(racers):
        return ""
    fewest = min(nbytes(one) for one in senders)
    winners = [one for one in senders if show_bytes(nbytes(one)) == show_bytes(fewest)]
    among = f"{_names(silent)} sent nothing; of the others, " if silent else ""
    if len(winners) == len(senders):
        return f" {among}{_names(winners)} sent the same, {show_bytes(fewest)} {when}."
    baseline = _baseline(senders, winners)
    ratio = _ratio(nbytes(baseline), fewest) if baseline is not None else None
    against = f"; {baseline.label} sent {ratio} times as many" if baseline is not None and ratio is not None else ""
    return f" {among}{_names(winners)} sent the fewest bytes, {show_bytes(fewest)} {when}{against}."


def _at(one: Series, report: Measured) -> str:
    # A report of 0 bytes from a run that did send says only that the runtime had not counted yet.
    counted = report.bytes_sent > 0 or one.outcome.summary.bytes_sent == 0
    return f"after {_seconds(one, report.time)}" + (f", when {show_bytes(report.bytes_sent)} had been sent" if counted else "")


def _baseline(candidates: list[Series], winners: list[Series]) -> Series | None:
    """The one run of allreduce, else of single, that has not won itself; none where it is ambiguous."""
    for system in _BASELINES:
        found = [one for one in candidates if one.outcome.summary.system == system]
        if found:
            return found[0] if len(found) == 1 and found[0] not in winners else None
    return None


def _ratio(larger: float, smaller: float) -> str | None:
    if smaller <= 0 or larger / smaller < 1.05:
        return None
    ratio = larger / smaller
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _seconds(one: Series, seconds: float) -> str:
    return show_seconds(seconds) + (" of virtual time" if is_virtual(one.outcome) else "")


def _names(series: Sequence[Series]) -> str:
    labels = [one.label for one in series]
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
