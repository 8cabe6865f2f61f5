"""A summary of a comparison in one or two plain sentences that are true in every case."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polyrhythm.core.records.metrics import Target, curve_of, higher_is_better, primary_metric, show_metric
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.units import show_bytes, show_seconds, show_window
from polyrhythm.tools.report.repeats import Repeats, Spread, repeats_of, spread
from polyrhythm.tools.report.rows import ending
from polyrhythm.tools.report.series import by_runtime, heading, is_virtual, series_of

_BASELINES = ("allreduce", "single")


def sentence(outcomes: Sequence[Outcome], target: Target | None = None) -> str:
    """A summary in words: the first system at the target (or the one that ended best and soonest), the one that sent the fewest bytes, the
    factors, and those that failed.

    Of runs that differ in their seed alone it gives the medians, and where their ranges overlap it notes that the order may be chance.
    """
    groups = by_runtime(series_of(outcomes))
    if not groups:
        return "There are no runs to compare."
    if len(groups) == 1:
        return _about(repeats_of(groups[0]), target)
    return " ".join(f"{heading(group)}: {_about(repeats_of(group), target)}" for group in groups)


def _about(group: list[Repeats], target: Target | None) -> str:
    ended = [one for one in group if not one.failed]
    failed = [one for one in group if one.failed]
    if not ended and len(failed) == 1 and len(failed[0].runs) == 1:
        return _stopped(ending(failed[0].first))
    what = "did not end" if any(run.unended for one in failed for run in one.runs) else "failed"
    if not ended:
        return f"All {_runs(failed)} runs {what}: {_names(failed)}."
    seeds = max(len(one.runs) for one in ended)
    medians = f"By the medians of {seeds} seeds: " if seeds > 1 else ""
    losses = "".join(
        f" {len(one.runs) - len(one.ended)} of the {len(one.runs)} runs of {one.label} failed."
        for one in ended
        if len(one.ended) < len(one.runs)
    )
    without = f" {_names(failed)} {what} and {'is' if len(failed) == 1 else 'are'} not compared." if failed else ""
    return medians + _finding(ended, target) + losses + without


def _finding(ended: list[Repeats], target: Target | None) -> str:
    if len(ended) == 1:
        return _alone(ended[0], target)
    return _finish(ended) if target is None else _race(ended, target)


def _alone(one: Repeats, target: Target | None) -> str:
    if target is not None and math.isfinite(one.to(target).median):
        return f"{one.label} reached {target} {_at(one, target)}."
    metric = target.metric if target is not None else primary_metric(one.known)
    value = one.final(metric) if metric is not None else None
    missed = f"did not reach {target}; it " if target is not None else ""
    ending = f"ended with {metric} {show_metric(value.median)}" if value is not None else "ended"
    return f"{one.label} {missed}{ending} after {_seconds(one, _time(one).median)} and {show_bytes(_sent(one))} sent."


def _race(ended: list[Repeats], target: Target) -> str:
    racers = [one for one in ended if math.isfinite(one.to(target).median)]
    if not racers:
        return _none_reached(ended, target)
    never = [one for one in ended if not one.reached(target)]
    others = f" {_names(never)} did not reach it." if never else ""
    others += "".join(
        f" {one.label} reached it with {one.reached(target)} of {len(one.runs)} seeds."
        for one in ended
        if 0 < one.reached(target) < len(one.runs)
    )
    if len(racers) == 1:
        return f"Only {racers[0].label} reached {target}, {_at(racers[0], target)}.{others}"
    first = _first(racers, _soonest(racers, target), lambda one: one.to(target), f"reached {target}", f"times to {target}")
    sent = {one.label: one.bytes_to(target) for one in racers}
    return f"{first}{_bytes(racers, sent, 'up to there')}{others}"


def _none_reached(ended: list[Repeats], target: Target) -> str:
    best = {one.label: spread(values).median for one in ended if (values := _bests(one, target))}
    if not best:
        return f"None of the {_runs(ended)} runs reported {target.metric}, so none reached {target}."
    partly = [one for one in ended if one.reached(target)]
    if partly:
        return f"No system reached {target}, though {_names(partly)} did with some of the seeds."
    nearest = show_metric(target.best(best.values()))
    closest = [one for one in ended if one.label in best and show_metric(best[one.label]) == nearest]
    return f"None of the {_runs(ended)} runs reached {target}; {_names(closest)} came closest, with {nearest}."


def _bests(one: Repeats, target: Target) -> list[float]:
    """The best that each run reported of the target's metric."""
    reported = [[event.metrics[target.metric] for event in curve_of(outcome, target.metric)] for outcome in one.known]
    return [target.best(values) for values in reported if values]


def _finish(ended: list[Repeats]) -> str:
    soonest = min(_time(one).median for one in ended)
    # What reads the same is called a tie: the digits beyond do not decide anything.
    winners = [one for one in ended if show_seconds(_time(one).median) == show_seconds(soonest)]
    first = _first(ended, Winners(winners, f"after {_seconds(winners[0], soonest)}"), _time, "finished", "times")
    samples = {outcome.summary.samples for one in ended for outcome in one.known}
    caution = " They did not all use the same number of samples: see the table." if len(samples) > 1 else ""
    return f"{_best(ended)}{first}{_bytes(ended, {one.label: _sent(one) for one in ended}, 'in all')}{caution}"


def _best(ended: list[Repeats]) -> str:
    metric = primary_metric(outcome for one in ended for outcome in one.known)
    values = {one.label: value for one in ended if metric is not None and (value := one.final(metric)) is not None}
    if metric is None or not values:
        return ""
    higher = higher_is_better(metric)
    if higher is None:
        return ""  # which ended best cannot be known
    top = show_metric((max if higher else min)(value.median for value in values.values()))
    winners = [one for one in ended if one.label in values and show_metric(values[one.label].median) == top]
    if len(winners) == len(ended):
        return f"All {len(ended)} {'runs' if _runs(ended) == len(ended) else 'systems'} ended with {metric} {top}. "
    compared = [one for one in ended if one.label in values]
    baseline = _baseline(compared, winners)
    against = f" ({baseline.label}: {show_metric(values[baseline.label].median)})" if baseline is not None else ""
    highest = "highest" if higher else "lowest"
    chance = _chance(winners, compared, lambda one: values[one.label], f"values of {metric}")
    return f"{_names(winners)} ended with the {highest} {metric}, {top}{against}.{chance} "


@dataclass(frozen=True, slots=True)
class Winners:
    """The first systems, several where no measurement separates them, and when: "after 4.1 s"."""

    names: list[Repeats]
    when: str


def _soonest(racers: list[Repeats], target: Target) -> Winners:
    """The first at the target: evaluations show only between which moments it was reached, and windows that overlap have no order."""
    windows = {one.label: one.window(target) for one in racers}
    first = min(racers, key=lambda one: windows[one.label][1])
    shown = show_window(*windows[first.label])
    tied = [one for one in racers if windows[one.label][0] < windows[first.label][1] or show_window(*windows[one.label]) == shown]
    begin, end = min(windows[one.label][0] for one in tied), max(windows[one.label][1] for one in tied)
    return Winners(tied, show_window(begin, end) + (" of virtual time" if is_virtual(first.first.outcome) else ""))


def _first(racers: list[Repeats], winners: Winners, time: Callable[[Repeats], Spread], did: str, what: str) -> str:
    if len(winners.names) == len(racers):
        return f"{_names(winners.names)} {did} at the same time, {winners.when}."
    baseline = _baseline(racers, winners.names)
    soonest = min(time(one).median for one in racers)
    ratio = _ratio(time(baseline).median, soonest) if baseline is not None else None
    against = f", {ratio} times as fast as {baseline.label}" if baseline is not None and ratio is not None else ""
    return f"{_names(winners.names)} {did} first, {winners.when}{against}.{_chance(winners.names, racers, time, what)}"


def _chance(winners: list[Repeats], compared: list[Repeats], value: Callable[[Repeats], Spread], what: str) -> str:
    """A caution where another system could be first with another seed."""
    rivals = [
        one
        for one in compared
        if one not in winners and any(len(one.runs) + len(best.runs) > 2 and value(one).overlaps(value(best)) for best in winners)
    ]
    return f" Over the seeds the {what} of {_names(winners + rivals)} overlap, so that their order may be chance." if rivals else ""


def _bytes(racers: list[Repeats], sent: dict[str, float], when: str) -> str:
    without_traffic = [one for one in racers if not any(outcome.summary.bytes_sent for outcome in one.known)]
    senders = [one for one in racers if sent[one.label] > 0]
    if len(without_traffic) == len(racers):
        return " None of them sent anything."
    if len(senders) < 2 or len(senders) + len(without_traffic) < len(racers):
        return ""
    fewest = min(sent[one.label] for one in senders)
    winners = [one for one in senders if show_bytes(sent[one.label]) == show_bytes(fewest)]
    among = f"{_names(without_traffic)} sent nothing; of the others, " if without_traffic else ""
    if len(winners) == len(senders):
        return f" {among}{_names(winners)} sent the same, {show_bytes(fewest)} {when}."
    baseline = _baseline(senders, winners)
    ratio = _ratio(sent[baseline.label], fewest) if baseline is not None else None
    against = f"; {baseline.label} sent {ratio} times as many" if baseline is not None and ratio is not None else ""
    return f" {among}{_names(winners)} sent the fewest bytes, {show_bytes(fewest)} {when}{against}."


def _at(one: Repeats, target: Target) -> str:
    nbytes = one.bytes_to(target)
    # A report of 0 bytes from a run that did send means only that the runtime had not counted yet.
    counted = nbytes > 0 or _sent(one) == 0
    return _when(one, target) + (f", when {show_bytes(nbytes)} had been sent" if counted else "")


def _when(one: Repeats, target: Target) -> str:
    return show_window(*one.window(target)) + (" of virtual time" if is_virtual(one.first.outcome) else "")


def _time(one: Repeats) -> Spread:
    return one.of(lambda outcome: outcome.time)


def _sent(one: Repeats) -> float:
    return one.of(lambda outcome: outcome.summary.bytes_sent).median


def _runs(several: Sequence[Repeats]) -> int:
    return sum(len(one.runs) for one in several)


def _baseline(candidates: list[Repeats], winners: list[Repeats]) -> Repeats | None:
    """The one run of allreduce, else of single, that has not won itself; none where it is ambiguous."""
    for system in _BASELINES:
        found = [one for one in candidates if one.system == system]
        if found:
            return found[0] if len(found) == 1 and found[0] not in winners else None
    return None


def _ratio(larger: float, smaller: float) -> str | None:
    if smaller <= 0 or larger / smaller < 1.05:
        return None
    ratio = larger / smaller
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _seconds(one: Repeats, seconds: float) -> str:
    return show_seconds(seconds) + (" of virtual time" if is_virtual(one.first.outcome) else "")


def _names(several: Sequence[Repeats]) -> str:
    labels = [one.label for one in several]
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
