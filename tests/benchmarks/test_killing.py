"""The count of samples in runs whose workers are killed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield importlib.import_module("killing.records")
    for name in ("killing", "killing.records"):
        sys.modules.pop(name, None)


def _uses(*samples: int) -> tuple[tuple[int, int], ...]:
    return tuple((0, each) for each in samples)


def test_a_sample_of_an_open_step_that_is_left_over_at_the_end_of_an_epoch_is_no_half_of_a_step(records: Any) -> None:
    processes = [records.ProcessSteps(1, used=[_uses(0, 1), _uses(4, 5), _uses(2)]), records.ProcessSteps(2, open=_uses(2, 3))]
    found = records.ledger(processes, epochs=1, samples=6, workers=2)
    assert (found.left, found.again, found.whole) == (1, 1, True)


def test_a_step_of_which_more_samples_are_missing_than_may_be_left_over_is_partial(records: Any) -> None:
    processes = [records.ProcessSteps(1, used=[_uses(0, 1), _uses(4, 5), _uses(2)]), records.ProcessSteps(2, open=_uses(2, 3, 6, 7))]
    found = records.ledger(processes, epochs=1, samples=8, workers=2)
    assert (found.partial, found.whole) == (4, False)
