"""A run that only keeps time takes the time of the full run, and sends its bytes."""

from __future__ import annotations

import pytest
from toy import SLOW, Toy

import polyrhythm as pr
from polyrhythm.errors import CompositionError

TOY = Toy(epochs=2, batch_size=4)  # 3 workers: 8 steps of 4 samples an epoch


@pytest.mark.parametrize("system", ["allreduce", "ssp", "sparknet", "diloco", "onebit"])
def test_time_and_bytes_are_those_of_the_full_run(system: str) -> None:
    on = pr.Simulator(network=SLOW, devices=pr.Device("slow core", 1e7))
    full = pr.run(TOY, workers=3, strategy=system, on=on).summary
    timed = pr.time(TOY, workers=3, strategy=system, steps=16, on=on).summary
    assert (timed.steps, timed.samples) == (full.steps, full.samples)
    assert (timed.bytes_sent, timed.messages_sent) == (full.bytes_sent, full.messages_sent)
    assert timed.virtual_seconds == pytest.approx(full.virtual_seconds, rel=1e-6)


def test_uneven_machines_keep_their_pace() -> None:
    fleet = pr.Fleet((pr.Device("fast", 1e9), pr.Device("slow", 1e6)))
    on = pr.Simulator(network=pr.Instant(), devices=fleet)
    timed = pr.time(TOY, workers=2, strategy="allreduce", steps=10, on=on)
    alone = pr.time(TOY, workers=2, strategy="allreduce", steps=10, on=pr.Simulator(network=pr.Instant(), devices=pr.Device("slow", 1e6)))
    assert timed.summary.virtual_seconds == pytest.approx(alone.summary.virtual_seconds)


def test_a_measured_profile_is_refused_because_its_steps_are_timed_already() -> None:
    with pytest.raises(CompositionError, match="name a device"):
        pr.time(TOY, workers=2, strategy="allreduce", steps=2, on=pr.Simulator(devices=pr.Profile("measured", (0.1,))))


def test_a_training_function_that_takes_no_step_is_refused() -> None:
    with pytest.raises(CompositionError, match="took no step"):
        pr.time(Toy(epochs=0), workers=2, strategy="allreduce", steps=2, on=pr.Simulator(network=pr.Instant()))
