"""A small grid of settings that every system is tried with, on a seed that the comparison does not use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import msgspec

from polyrhythm.core.records.metrics import Target, higher_is_better, is_counter, primary_metric, show_metric
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.units import show_seconds
from polyrhythm.errors import CompositionError
from polyrhythm.tools.report.grid import Grid

APART = 1000
"""The tuning seed is so much more than the first of the comparison, unless it is given."""


_TIME = "time to "


class Tried(msgspec.Struct):
    """One system with one choice of settings: when it reached the target, if it did, and how it ended."""

    system: str
    settings: dict[str, str]
    chosen: bool
    reached_seconds: float | None
    run: Summary


class Tuning(msgspec.Struct):
    """A grid of settings, the seed it was tried on, what decided, and all that was tried; equally much for every system."""

    seed: int
    grid: dict[str, list[str]]
    judged_by: str
    tried: list[Tried]


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values of each setting that `--tune lr=0.01,0.02` names. Raises CompositionError for anything else."""
    grid: dict[str, list[str]] = {}
    for text in texts:
        key, _, values = text.partition("=")
        listed = list(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
        if not key.strip() or not listed:
            raise CompositionError(f"--tune was given {text!r}: write a setting and its values, such as lr=0.005,0.01,0.02.")
        if "." in key:
            raise CompositionError(
                f"--tune {text} is for one system only, but all must have equal tuning budgets: tune {key.rpartition('.')[2]}."
            )
        if key.strip() in grid:
            raise CompositionError(f"--tune names {key.strip()} twice: write all its values into one option, with commas between.")
        grid[key.strip()] = listed
    return grid


def choices(grid: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of the values of `grid`."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def judge(grid: dict[str, list[str]], seed: int, tried: Sequence[tuple[str, Outcome]], target: Target | None) -> Tuning:
    """Choose for each system among its outcomes, which come in the order of `choices`: the first of those that did best.

    Nothing is chosen for a system of which no run ended well. Raises CompositionError where nothing was measured to choose by, and where
    it is not known which way the metric is better.
    """
    metric = target.metric if target is not None else primary_metric(outcome for _, outcome in tried)
    ended = any(outcome.summary.error is None for _, outcome in tried)
    higher = _higher(metric, target) if ended else False
    combinations = choices(grid)
    entries = []
    for system in dict.fromkeys(name for name, _ in tried):
        outcomes = [outcome for name, outcome in tried if name == system]
        ranks = [_rank(outcome, metric, target, higher) for outcome in outcomes]
        best = None if all(outcome.summary.error is not None for outcome in outcomes) else ranks.index(min(ranks))
        for place, (settings, outcome) in enumerate(zip(combinations, outcomes, strict=True)):
            reached = target.first_reached(outcome) if target is not None else None
            entries.append(Tried(system, settings, place == best, None if reached is None else reached.time, outcome.summary))
    by = f"{_TIME}{target}" if target is not None else f"final {metric}" if ended else "nothing, because no run ended well"
    return Tuning(seed, grid, by, entries)


def _higher(metric: str | None, target: Target | None) -> bool:
    """True if more of the metric is better."""
    if target is not None:
        return target.higher_is_better
    if metric is None:
        raise CompositionError("--tune cannot choose, because the JOB reports no metric: call worker.report or worker.evaluate in it.")
    known = higher_is_better(metric)
    if known is None:
        raise CompositionError(
            f"--tune cannot choose by {metric}, whose name does not show whether higher or lower is better: "
            f"give --to '{metric}>=VALUE' or --to '{metric}<=VALUE'."
        )
    return known


def _rank(outcome: Outcome, metric: str | None, target: Target | None, higher: bool) -> tuple[bool, float, float]:
    """The less the better: those that ended well, by the time to the target or, where no run reached it or none is given, by the metric."""
    reached = target.first_reached(outcome) if target is not None else None
    value = outcome.summary.final.get(metric, math.nan) if metric is not None else math.nan
    last = math.inf if math.isnan(value) else -value if higher else value
    return outcome.summary.error is not None, math.inf if reached is None else reached.time, last


def chosen(tuning: Tuning) -> dict[str, dict[str, str]]:
    """The settings that each system did best with; a system of which no run ended well has none."""
    return {each.system: each.settings for each in tuning.tried if each.chosen}


def grid_of(tuning: Tuning) -> Grid:
    """A table of the trials."""
    rows = []
    for each in tuning.tried:
        ended = ", ".join(f"{name} {show_metric(value)}" for name, value in each.run.final.items() if not is_counter(name))
        reached = "not reached" if each.reached_seconds is None else show_seconds(each.reached_seconds)
        decisive = [reached] if tuning.judged_by.startswith(_TIME) else []
        rows.append(
            [each.system, *each.settings.values(), *decisive, "failed" if each.run.error else ended, "chosen" if each.chosen else ""]
        )
    columns = ["system", *tuning.grid, *([tuning.judged_by] if tuning.judged_by.startswith(_TIME) else []), "ended with", ""]
    edge = at_the_edge(tuning)
    remark = f"{', '.join(edge)} did best at an end of the grid: wider ones may be better still." if edge else ""
    return Grid(f"Tuned on seed {tuning.seed}, which the comparison does not use, by {tuning.judged_by}", columns, rows, remark)


def at_the_edge(tuning: Tuning) -> list[str]:
    """The systems whose best value of some setting is the least or greatest that was tried, so that a better one may lie beyond."""
    edges = {}
    for key, values in tuning.grid.items():
        try:
            numbers = sorted(values, key=float)
        except ValueError:
            continue
        edges[key] = {numbers[0], numbers[-1]} if len(numbers) > 1 else set()
    return [system for system, best in chosen(tuning).items() if any(best[key] in ends for key, ends in edges.items())]
