"""Weights in few bits in memory that all workers share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy import Toy, remaining, trained, weights

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.kernel.events import Overwritten
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Mean, Sum
from polyrhythm.topology import FixedPointMemory, NearestRounding

from .test_shared_memory import Scalar

STEPS = 4
SMALL_STEPS = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.002), epochs=6)


def strategy(memory: FixedPointMemory) -> Strategy:
    return Strategy(consistency=LocalSteps(1, Asynchronous()), topology=memory, merge=Sum())


def counts(worker: Any) -> None:
    """One weight, which every step moves by 1."""
    model, optimizer = worker.attach(model := Scalar(), torch.optim.SGD(model.parameters(), lr=1.0))
    for _ in range(STEPS):
        worker.count(1)
        optimizer.zero_grad()
        model().backward()
        optimizer.step()


@pytest.mark.parametrize("bits", [8, 16])
def test_steps_that_the_scale_divides_are_those_of_hogwild_bit_for_bit(bits: int) -> None:
    memory = FixedPointMemory(bits, least=64.0)
    found, whole = (run(counts, workers=3, strategy=each, on=Simulator(network=Instant())) for each in (strategy(memory), "hogwild"))
    assert found.weights["weight"].item() == whole.weights["weight"].item() == 3 * STEPS


def test_a_tensor_has_a_scale_of_its_own_a_power_of_two_that_has_its_range() -> None:
    memory = FixedPointMemory(8, headroom=4.0, least=0.5)
    assert memory.scale(torch.zeros(3)) == 2.0**-7  # 0.5 / 127, rounded up
    assert memory.scale(torch.tensor([-31.0, 1.0])) == 1.0  # 124 / 127
    assert FixedPointMemory(16).scale(torch.tensor([1.0])) == 2.0**-12  # 4 / 32767


def test_rounded_at_random_small_steps_learn_as_whole_ones_and_to_the_nearest_not_one_is_taken() -> None:
    final = {
        name: trained(SMALL_STEPS, 3, found).summary.final["loss"]
        for name, found in (("whole", "hogwild"), ("wide", strategy(FixedPointMemory(16))), ("narrow", strategy(FixedPointMemory(8))))
    }
    assert final["wide"] == pytest.approx(final["whole"], rel=0.02)
    assert final["narrow"] == pytest.approx(final["whole"], rel=0.1)
    nearest = strategy(FixedPointMemory(8, NearestRounding()))
    still = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.0), epochs=1)
    assert torch.equal(weights(SMALL_STEPS, 3, nearest), weights(still, 3, nearest))


@pytest.mark.parametrize("workers", [2])
def test_real_workers_learn_together_and_count_lost_writes(workers: int) -> None:
    done = trained(Toy(epochs=12), workers, "buckwild", Processes())
    assert remaining(done) < 0.7, "the loss of guessing is ln 3, about 1.1"
    assert done.summary.row_writes == (12 + 12 + 3 + 3) * workers * done.summary.steps
    (event,) = (event for event in done.outcome.events if isinstance(event, Overwritten))
    assert 0 <= event.lost <= event.writes


def test_one_real_worker_is_the_virtual_one_bit_for_bit() -> None:
    assert torch.equal(weights(Toy(), 1, "buckwild", Processes()), weights(Toy(), 1, "buckwild"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bits": 4}, r"bits=4\).*give 8 or 16"),
        ({"bits": True}, r"bits=True\).*give 8 or 16"),
        ({"headroom": 0.5}, r"headroom=0\.5\).*1 or more"),
        ({"headroom": float("nan")}, r"headroom=nan\)"),
        ({"least": 0.0}, r"least=0\.0\).*above zero"),
        ({"rounding": "nearest"}, r"rounding='nearest'\).*NearestRounding\(\)"),
    ],
)
def test_settings_without_meaning_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        FixedPointMemory(**settings)


def test_only_sums_of_updates_have_a_place_in_it() -> None:
    with pytest.raises(CompositionError, match=r"Mean needs values .*, and over FixedPointMemory workers communicate in shared memory"):
        Strategy(consistency=LocalSteps(1, Asynchronous()), topology=FixedPointMemory(), merge=Mean())
