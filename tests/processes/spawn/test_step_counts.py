"""Steps that workers count in memory which outlives them."""

from __future__ import annotations

import os
from typing import Any

from polyrhythm.core.kernel.events import AnyEvent, Computed, Stepped
from polyrhythm.core.processes.spawn.step_counts import StepCounts


class Context:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.recorded: list[AnyEvent] = []
        self.record: Any = self.recorded.append


def test_the_launcher_knows_the_last_step_that_a_worker_has_recorded() -> None:
    counts, context = StepCounts.create(3), Context()
    theirs = StepCounts.open(counts.path, 3)
    counts.close()
    theirs.follow(context, "worker/5")  # type: ignore[arg-type]
    assert counts.completed("worker/5") is None
    context.record(Stepped(0.5, "worker/5", 7, 56, 0))
    context.record(Computed(0.6, "worker/5", 0.1))
    assert (counts.completed("worker/5"), counts.completed("worker/4")) == (7, None)
    assert len(context.recorded) == 2
    counts.begin("worker/8")  # in the same place
    assert counts.completed("worker/8") is None


def test_nothing_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    StepCounts.create(2).close()
    assert len(os.listdir("/proc/self/fd")) == before
