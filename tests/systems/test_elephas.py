"""Elephas' three modes: only one of them may lose writes."""

from __future__ import annotations

import pytest
from toy import Toy, trained

from polyrhythm.core.kernel.events import Overwritten
from polyrhythm.core.processes import Processes


@pytest.mark.parametrize("system", ["elephas", "elephas-asynchronous", "elephas-hogwild"])
def test_lost_writes_are_counted_without_locks_and_cannot_be_elsewhere(system: str) -> None:
    found = trained(Toy(), 2, system, Processes())
    counted = [event for event in found.outcome.events if isinstance(event, Overwritten)]
    assert len(counted) == (system == "elephas-hogwild")
    assert all(event.writes >= found.summary.steps and event.lost >= 0 for event in counted)
