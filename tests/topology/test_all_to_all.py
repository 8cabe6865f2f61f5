"""Peers that send each other everything, and of whom some may be lost."""

from __future__ import annotations

import pytest
from toy import SLOW, Toy, trained

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import Crash


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.021, 0.03, 0.05])
@pytest.mark.parametrize("lost", [(2,), (4,), (2, 4), (4, 6)], ids=str)
def test_the_others_begin_without_one_who_should_have_passed_the_weights_on(lost: tuple[int, ...], moment: float) -> None:
    faults = tuple(Crash(f"worker/{rank}", at=moment + 0.002 * rank) for rank in lost)
    summary = trained(Toy(epochs=2, batch_size=2), 7, "strom", Simulator(network=SLOW, faults=faults)).summary
    assert summary.steps == 14
    assert summary.lost == [f"worker/{rank}" for rank in lost]


def test_decoding_what_the_others_send_takes_as_long_as_was_measured() -> None:
    def seconds(merging: float) -> float:
        on = Simulator(network=Instant(), devices=Profile("measured", (1.0,), merging))
        return trained(Toy(epochs=2, batch_size=2), 3, "strom", on).summary.virtual_seconds or 0.0

    steps = seconds(0.0)
    assert steps < seconds(0.125) <= steps * (1 + 2 * 0.125)
