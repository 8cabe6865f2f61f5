"""Questions before a search: whether the JOB measures the target, has met it already, and is small enough for the time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from polyrhythm.core.records.metrics import show_metric
from polyrhythm.core.units import show_seconds
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import ALONE
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.lengths import Observed
from polyrhythm.tools.planner.look import Look

_PART = 0.02
_LEAST = 1.0
"""Each run that looks at the JOB may take this part of the time, and at least so many seconds."""
_WHOLE = 0.1
"""And one that looks whether the target's metric comes at the end of the JOB."""
_FIRST_PART = 1 / 64
_FIRST_TIME = 0.3
"""Short runs of all systems are to take this part of the time at most."""


@dataclass(slots=True)
class Acquaintance:
    """Looks at the JOB of `found`, and tells it what was seen; `at_once` runs are made at the same time."""

    found: Findings
    budget: Budget
    at_once: int
    remarks: list[str] = field(default_factory=list)

    def obstacle(self) -> str:
        """Why there can be no plan; empty where there can. Raises PolyrhythmErrors for a JOB that cannot be run."""
        found, target = self.found, self.found.scenario.target
        seconds = max(_LEAST, _PART * self.budget.seconds)
        look = Look(found.scenario, seconds)
        seen = look.observed()
        if target.metric not in seen.metrics:
            names, whole = look.all_metrics(max(seconds, _WHOLE * self.budget.seconds))
            seen = replace(seen, metrics=seen.metrics | names)
            if whole and target.metric not in seen.metrics:
                given = ", ".join(sorted(seen.metrics))
                remedy = f"the JOB gives {given}" if given else "the JOB must give it to worker.evaluate or worker.report"
                return f"The JOB gives no value of {target.metric}: {remedy}."
        found.observe(seen)
        if seen.untrained is not None and target.met_by(seen.untrained):
            return (
                f"The untrained model meets {target} already: its {target.metric} is {show_metric(seen.untrained)}. Give a target that "
                "training has to reach."
            )
        self._remark(seen)
        return ""

    def _remark(self, seen: Observed) -> None:
        found, length = self.found, self.found.scenario.length
        if seen.scheduled and length is not None:
            self.remarks.append(
                f"The schedule of the optimizer depends on {length.name}: with twice as many, equal steps have other rates. So "
                f"{length.name} is varied like the learning rate, and a choice holds for the {length.name} in its command."
            )
        if not found.counts:
            size = found.batch(ALONE)
            self.remarks.append(
                f"The JOB does not count its samples: a step is taken to have {size}. worker.count(n) before each step counts them."
            )
        samples, systems = _FIRST_PART * found.samples, len(found.space.systems)
        needed = systems * max(seen.real, seen.real * samples / found.batch(ALONE)) / self.at_once / _FIRST_TIME
        if needed > self.budget.seconds:
            few = max(1, int(systems * self.budget.seconds / needed))
            self.remarks.append(
                f"The JOB is large for this budget: a step takes {show_seconds(seen.real)} here, so that of {systems} systems at most "
                f"about {few} can be tried in {show_seconds(self.budget.seconds)}. Give --budget {_rounded(needed)} or more, or name a few "
                "--systems."
            )


def _rounded(seconds: float) -> str:
    """The seconds as text, as the option takes it."""
    return f"{seconds / 3600:.1f}h" if seconds > 2 * 3600 else f"{seconds / 60:.0f}m" if seconds > 120 else f"{seconds:.0f}s"
