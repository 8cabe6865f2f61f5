"""Prices by the hour of the day."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.hardware.fleet import fleet
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.price_hours import PriceHours

HOUR = 3600.0
NIGHT = PriceHours("22 h", "9 h", 0.1)


@pytest.mark.parametrize("begin", [0.0, 5.5, 7.0, 21.9, 22.0, 30.0])
@pytest.mark.parametrize("length", [0.0, 0.3, 3.0, 24.0, 61.7])
def test_what_is_covered_is_what_steps_of_a_minute_find(begin: float, length: float) -> None:
    minutes = round(length * 60)
    inside = sum((begin * 60 + minute + 0.5 - 1320) % 1440 < 540 for minute in range(minutes))
    assert NIGHT.covered(begin * HOUR, begin * HOUR + minutes * 60) == pytest.approx(inside * 60, abs=1e-6)


def test_prices_are_read_from_a_device_file_and_are_those_of_the_machine_it_is_like(tmp_path: Path) -> None:
    (tmp_path / "rented.json").write_text('{"name": "r", "like": "l4", "prices": [{"at": "22 h", "for": "9 h", "worker_hour": 0.1}]}')
    file = tmp_path / "all.json"
    file.write_text('{"name": "all", "machines": ["rented.json", {"name": "s", "like": "rented.json", "prices": []}]}')
    assert [fleet(file).terms_of(worker).prices for worker in (0, 1)] == [(NIGHT,), ()]


@pytest.mark.parametrize("given", [("24 h", "1 h", 1.0), ("0 h", "24 h", 1.0), ("0 h", 0.0, 1.0), ("1 h", "1 h", -1.0)])
def test_hours_and_prices_that_cannot_be_are_refused(given: tuple[str, str, float]) -> None:
    with pytest.raises(CompositionError, match="cannot be"):
        PriceHours(*given)


def test_two_prices_of_one_hour_are_refused_also_beyond_midnight() -> None:
    MachineTerms(prices=(NIGHT, PriceHours("7 h", "15 h", 0.3)))
    for other in (PriceHours("6 h", "2 h", 0.3), PriceHours("21 h", "2 h", 0.3), PriceHours("23 h", "1 h", 0.3), NIGHT):
        with pytest.raises(CompositionError, match="two prices of the same hours"):
            MachineTerms(prices=(NIGHT, other))
