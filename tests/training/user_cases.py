"""What users do to models and optimizers: what comes of each case under a system, right or refused with what fits it, and never silent.

`training.case_matrix` prints the matrix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import PolyrhythmError

from .scenes import Train

ONE_BACKWARD = r"got a gradient twice before optimizer\.step\(\)"
ONE_BATCH = r"A step was taken on \d+ batches"
AT_SERVERS = r"cannot run at a server, which has only a part of the weights"
DEFERRED = r"may look at all parameters in a step, but under Deferred each takes its step alone"
OWN_LIMITS = (ONE_BACKWARD, ONE_BATCH, AT_SERVERS, DEFERRED)
"""What some systems say of a case before it can be what it is elsewhere: each names the system's own limit and its remedy."""


@dataclass(frozen=True)
class Case:
    """A training function, and its error as a pattern: none where it is right. `limits` may be reported in its place."""

    train: Train
    refusal: str | None = None
    limits: Sequence[str] = OWN_LIMITS

    def outcome(self, system: str, on: Runtime | None = None) -> str:
        """ "right", "refused", "limit" or what else came of it."""
        try:
            run(self.train, workers=2, strategy=system, on=on or Simulator(network=Instant()), seed=5)
        except PolyrhythmError as error:
            text = str(error)
            if self.refusal is not None and re.search(self.refusal, text):
                return "refused"
            return "limit" if any(re.search(each, text) for each in self.limits) else f"{type(error).__name__}: {text}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "right" if self.refusal is None else "silent"


def matrix(cases: Mapping[str, Case], systems: Sequence[str], on: Runtime | None = None) -> dict[str, dict[str, str]]:
    """The outcome of each case under each system."""
    return {name: {system: case.outcome(system, on) for system in systems} for name, case in cases.items()}


def shown(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The matrix as text: for each case how many systems have which outcome, and which where it is not the most frequent."""
    lines = []
    for name, outcomes in found.items():
        by_outcome: dict[str, list[str]] = {}
        for system, outcome in outcomes.items():
            by_outcome.setdefault(outcome, []).append(system)
        ordered = sorted(by_outcome.items(), key=lambda each: -len(each[1]))
        parts = [f"{len(names)} {outcome}" + (f" ({', '.join(names)})" if k else "") for k, (outcome, names) in enumerate(ordered)]
        lines.append(f"{name}: {'; '.join(parts)}")
    return "\n".join(lines)
