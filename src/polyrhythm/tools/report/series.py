"""The runs of a comparison, each with the label and the look that it keeps in every table and chart. The page, the charts, the table and
the summary sentence make their series here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from polyrhythm.core.records.outcome import Outcome

# Hue alone does not distinguish thirteen lines for everyone: neighbours differ in lightness, and dash with symbol is unique up to 15.
LIGHT = [
    "#2368b0", "#d1550a", "#0b8f6a", "#b5559b", "#b98300", "#3b9fd6", "#4a37a3", "#8a1f4b",
    "#7f8a1a", "#6b7280", "#0f5f66", "#7a4a21", "#e0606c", "#1c1f24", "#5c9a3a",
]  # fmt: skip
DARK = [
    "#6aa9ec", "#f58a4b", "#3cc79b", "#e28fcb", "#e8b53a", "#9ad8fa", "#a398f5", "#dd6b97",
    "#bcc751", "#a7adb8", "#52b3bb", "#c9935f", "#ffa0a8", "#f2f4f7", "#93d46e",
]  # fmt: skip
_DASHES = ((), (7, 4), (2, 3))
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")
DEVICE = "device"
"""The setting with the device's name, in the records of a comparison of several."""
_SEED = re.compile(r"\bseed=[^,)]*")

Setup = tuple[int, str | None, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Series:
    """One run in a comparison: `label` is its own, `name` and with it `place`, which decides its look, it shares with its other seeds."""

    label: str
    place: int
    outcome: Outcome
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.label)

    @property
    def colour(self) -> str:
        """Its colour on white, "#rrggbb"."""
        return LIGHT[self.hue]

    @property
    def hue(self) -> int:
        """The number of its colour."""
        return self.place % len(LIGHT)

    @property
    def dash(self) -> tuple[int, ...]:
        """Lengths of strokes and gaps in its line; none where it is solid."""
        return _DASHES[self.place // len(_SYMBOLS) % len(_DASHES)]

    @property
    def symbol(self) -> str:
        """Its marker, as Vega calls it."""
        return _SYMBOLS[self.place % len(_SYMBOLS)]

    @property
    def failed(self) -> bool:
        """True if the run ended in an error, or has not ended."""
        return self.outcome.summary.error is not None

    @property
    def unended(self) -> bool:
        """True if the run was interrupted or killed, or is under way."""
        return self.outcome.state in ("running", "interrupted")


def series_of(outcomes: Sequence[Outcome]) -> list[Series]:
    """Label the runs by their systems, and by workers, network or seed where one system ran more than once in one runtime.

    Runs that differ in nothing but the seed share a name, and with it a look; those with the same seed too are numbered ("ssp #2").
    """
    labels, names = [], []
    taken: dict[tuple[bool, str, int], tuple[Setup, set[int]]] = {}
    for outcome in outcomes:
        parts, seed = _differences(outcome, [other for other in outcomes if _kind(other) == _kind(outcome)])
        name, setup = outcome.summary.system + _bracketed(parts), _setup(outcome)
        for number in count(1):
            setup_there, seeds = taken.setdefault((is_virtual(outcome), name, number), (setup, set()))
            if setup_there == setup and outcome.summary.seed not in seeds:
                break
        seeds.add(outcome.summary.seed)
        again = f" #{number}" if number > 1 else ""
        names.append(name + again)
        labels.append(outcome.summary.system + _bracketed(parts + seed) + again)
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return [Series(label, places[name], outcome, name) for label, name, outcome in zip(labels, names, outcomes, strict=True)]


def _kind(outcome: Outcome) -> tuple[bool, str]:
    return is_virtual(outcome), outcome.summary.system


def _setup(outcome: Outcome) -> Setup:
    """The settings of a run, without seeds."""
    summary = outcome.summary
    settings = tuple((name, _SEED.sub("", value)) for name, value in sorted(outcome.settings.items()))
    return summary.workers, summary.network, settings


def _differences(outcome: Outcome, twins: list[Outcome]) -> tuple[list[str], list[str]]:
    """The parts of its label that distinguish a run from others of its system, and, separately, its seed."""
    summary = outcome.summary
    parts = []
    if len({twin.summary.workers for twin in twins}) > 1:
        parts.append(f"{summary.workers} workers")
    if len({twin.summary.network for twin in twins}) > 1:
        parts.append(summary.network or "no network")
    if len({twin.settings.get(DEVICE) for twin in twins}) > 1:
        parts.append(outcome.settings.get(DEVICE, "no device"))
    return parts, [f"seed {summary.seed}"] if len({twin.summary.seed for twin in twins}) > 1 else []


def _bracketed(parts: list[str]) -> str:
    return f" ({', '.join(parts)})" if parts else ""


def is_virtual(outcome: Outcome) -> bool:
    """True if the run's seconds are virtual ones."""
    return outcome.summary.on == "simulator"


def by_runtime(series: Iterable[Series]) -> list[list[Series]]:
    """Real runs apart from virtual ones, since their seconds do not compare; empty groups are left out."""
    real: list[Series] = []
    virtual: list[Series] = []
    for one in series:
        (virtual if is_virtual(one.outcome) else real).append(one)
    return [group for group in (real, virtual) if group]


def heading(group: Sequence[Series]) -> str:
    """A heading for the runs of one runtime: "In virtual time"."""
    if is_virtual(group[0].outcome):
        return "In virtual time"
    engines = sorted({one.outcome.summary.on for one in group} - {"processes"})
    return f"On real processes, by {' and '.join(engines)}" if engines else "On real processes"


def crowds(group: Sequence[Series]) -> list[int]:
    """The numbers of workers that occur, without the baselines of one worker where there are larger ones."""
    workers = sorted({one.outcome.summary.workers for one in group})
    return workers[1:] if workers[0] == 1 and len(workers) > 1 else workers


def circumstances(group: Sequence[Series]) -> str:
    """Workers, network and seed, where the runs agree on them: "16 workers over slow, seed 7"."""
    summaries = [one.outcome.summary for one in group]
    workers = crowds(group)
    alone = dict.fromkeys(one.name for one in group if one.outcome.summary.workers < workers[0])
    networks = sorted({summary.network for summary in summaries if summary.network})
    seeds = sorted({summary.seed for summary in summaries})
    many = f"{workers[-1]} worker{'s' * (workers[-1] != 1)}" if len(workers) == 1 else f"{workers[0]} to {workers[-1]} workers"
    many += f" ({', '.join(alone)}: 1)" if alone else ""
    over = f" over {' and '.join(networks)}" if networks else ""
    return f"{many}{over}, seed{'s' * (len(seeds) != 1)} {', '.join(map(str, seeds[:6]))}{' …' * (len(seeds) > 6)}"
