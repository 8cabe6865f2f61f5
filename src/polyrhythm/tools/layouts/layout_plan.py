"""A plan of layouts: what was found of each, how the short runs agree with the screening, and which to take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.errors import CompositionError
from polyrhythm.tools.layouts.agreement import kendall
from polyrhythm.tools.layouts.candidate import LayoutCandidate
from polyrhythm.tools.layouts.explanation import LayoutRefusal
from polyrhythm.tools.layouts.screening import ScreenedLayout
from polyrhythm.tools.layouts.short_runs import TrainedLayout

TERMS: Mapping[str, str] = {
    "memory": "derived: the storages that are alive in a step on shapes",
    "operations, bytes within a replica": "derived: counted in a step on shapes",
    "seconds of an operation": "as the simulator's devices are given: measured for a calibrated machine, assumed for a preset",
    "seconds of lines and of waiting within a replica": "derived: rounds of messages on shared links, and the schedule's timetable; it is "
    "assumed that all replicas are at the same place of a step",
    "seconds and bytes of the exchange among replicas": "measured in virtual time: a run of the exchanges alone; that none overlaps "
    "with computing is assumed",
    "loss": "measured with real gradients in the layouts that were trained; of the others all steps are assumed to be worth the same",
}
"""Where each figure comes from."""
_SHOWN = 12


@dataclass(frozen=True)
class PlannedLayout:
    """A layout of a plan, with what the screening found, and what a short run showed if there was one; `seconds` to the plan's loss."""

    screened: ScreenedLayout
    trained: TrainedLayout | None = None
    seconds: float | None = None

    @property
    def candidate(self) -> LayoutCandidate:
        """The layout itself."""
        return self.screened.candidate

    @property
    def arguments(self) -> dict[str, object]:
        """What `pr.run` is given to have it: `pr.run(train, on=..., **layout.arguments)`."""
        return self.candidate.arguments


@dataclass(frozen=True)
class LayoutPlan:
    """The `layouts` that fit, the best first; those that do not fit, and the reasons, in `refused` with what cannot be at all.

    `target` is the loss to which seconds are, None where nothing was trained.
    """

    layouts: tuple[PlannedLayout, ...]
    refused: tuple[LayoutRefusal, ...]
    target: float | None = None
    terms: Mapping[str, str] = field(default_factory=lambda: TERMS)

    @property
    def best(self) -> PlannedLayout:
        """The layout to take. Raises CompositionError where none fits."""
        if not self.layouts:
            reasons = "; ".join(str(each) for each in self.refused[:1])
            raise CompositionError(f"No layout fits, so there is none to take: {reasons or 'the space has none'}.")
        return self.layouts[0]

    @property
    def trained(self) -> tuple[PlannedLayout, ...]:
        """Those that were trained, the best first."""
        return tuple(each for each in self.layouts if each.trained is not None)

    @property
    def agreement(self) -> float | None:
        """Kendall's τ between the screening's seconds of a step and the short runs' seconds to the loss; None for less than two."""
        runs = self.trained
        return kendall([each.screened.seconds for each in runs], [_seconds(each) for each in runs])

    @property
    def step_agreement(self) -> float | None:
        """Kendall's τ between the seconds of a step that were predicted and those of the short runs."""
        runs = [(each.screened.seconds, each.trained.step_seconds) for each in self.layouts if each.trained is not None]
        return kendall([predicted for predicted, _ in runs], [seen for _, seen in runs])

    @property
    def regret(self) -> float | None:
        """By which part the screening's first took longer to the loss than the best did; infinite if it never came there."""
        if not self.trained:
            return None
        first = min(self.trained, key=lambda each: each.screened.seconds)
        best = min(map(_seconds, self.trained))
        return _seconds(first) / best - 1 if best < math.inf else None

    def rows(self) -> dict[str, Any]:
        """The plan as data for a file: of each layout its name, its seconds and their terms, memory, and bytes by axis and line."""
        return {
            "target": self.target,
            "agreement": self.agreement,
            "step_agreement": self.step_agreement,
            "regret": self.regret,
            "layouts": [_row(each) for each in self.layouts],
            "refused": [{"what": each.what, "why": each.why} for each in self.refused],
            "terms": dict(self.terms),
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [f"{len(self.layouts)} layouts fit, {len(self.refused)} were refused; {len(self.trained)} were trained."]
        if self.target is not None:
            regret = "none" if self.regret is None else f"{self.regret:.0%}"
            lines.append(
                f"Seconds to a loss of {self.target:.4g}; rank agreement of the screening {_tau(self.agreement)} with them and "
                f"{_tau(self.step_agreement)} with the seconds of a step, regret of its choice {regret}."
            )
        lines.append(
            f"{'seconds to loss':>15}  {'step, trained':>13}  {'step':>9} = {'computing':>9} + {'lines':>9} + {'waiting':>9} + exchange"
        )
        for each in self.layouts[:_SHOWN]:
            lines += _described(each)
        if len(self.layouts) > _SHOWN:
            lines.append(f"and {len(self.layouts) - _SHOWN} more")
        lines += self._reasons()[:_SHOWN]
        return [*lines, *(f"{term}: {source}" for term, source in self.terms.items())]

    def _reasons(self) -> list[str]:
        """Each reason once, with the first layout that was refused for it."""
        whats: dict[str, list[str]] = {}
        for each in self.refused:
            whats.setdefault(each.why, []).append(each.what)
        return [f"refused: {what[0]}" + (f" and {len(what) - 1} more" if len(what) > 1 else "") + f": {why}" for why, what in whats.items()]


def _row(layout: PlannedLayout) -> dict[str, Any]:
    found, seen = layout.screened, layout.trained
    return {
        "name": found.candidate.name,
        "mesh": dict(found.candidate.mesh.axes),
        "seconds_to_loss": layout.seconds,
        "trained_step_seconds": None if seen is None else seen.step_seconds,
        "loss": None if seen is None else seen.loss,
        "step_seconds": found.seconds,
        "computing": found.span.computing,
        "lines": found.span.along,
        "waiting": found.span.waiting,
        "exchange": found.exchange,
        "memory": dict(found.memory),
        "peak": found.peak,
        "links": {axis: {_link(link): nbytes for link, nbytes in sent.items()} for axis, sent in found.links.items()},
    }


def _described(layout: PlannedLayout) -> list[str]:
    found = layout.screened
    took = "" if layout.trained is None else "not reached" if layout.seconds is None else show_seconds(layout.seconds)
    seen = "" if layout.trained is None else show_seconds(layout.trained.step_seconds)
    terms = (found.span.computing, found.span.along, found.span.waiting, found.exchange)
    parts = " + ".join(f"{show_seconds(each):>9}" for each in terms)
    lines = [
        f"{took:>15}  {seen:>13}  {show_seconds(found.seconds):>9} = {parts}  {found.candidate.name}",
        f"{'':>15}  {show_bytes(found.peak)} at once: {found.roles}",
    ]
    for axis, sent in found.links.items():
        shown = ", ".join(f"{_link(link)} {show_bytes(nbytes)}" for link, nbytes in sorted(sent.items()) if nbytes)
        lines.append(f"{'':>15}  {axis}: {shown}")
    return lines


def _link(link: tuple[str, str]) -> str:
    here, there = link
    return f"inside {here or 'the network'}" if here == there else f"{here} to {there}"


def _tau(found: float | None) -> str:
    return "unknown" if found is None else f"{found:.2f}"


def _seconds(layout: PlannedLayout) -> float:
    return math.inf if layout.seconds is None else layout.seconds
