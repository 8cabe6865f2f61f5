"""A coroutine that replays steps leaves the record of a program that takes them."""

from __future__ import annotations

import dataclasses

import pytest
from kinds import fewest
from toy import SLOW, Toy

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.worker import Worker
from polyrhythm.tools.measuring.replay import Replay, sending_zeros
from polyrhythm.tools.measuring.replayed_steps import BlockingSteps, CoroutineSteps, Taking, WeightsSteps, in_coroutine, in_program
from polyrhythm.tools.measuring.timing import charging, shape_of

from .scenes import EVERY_SYSTEM

SHAPE = shape_of(Toy(epochs=1, batch_size=4))
PACES = pr.hardware.Fleet((pr.Device("slow core", 1e7, 1e-3),), (pr.hardware.Jitter(0.3), pr.hardware.Mixed((1.0, 0.5))))
HARDWARE = {
    "network": pr.Simulator(network=SLOW, devices=PACES),
    "instant": pr.Simulator(network=pr.Instant(), devices=PACES, record_sends=True),
}


def replayed(system: str, on: pr.Simulator, taking: Taking) -> Run:
    """Five steps of four workers."""
    chosen, devices = systems.resolve(system), on.devices
    assert isinstance(devices, pr.hardware.Fleet)
    batches = SHAPE.zeros(4 * SHAPE.samples) if chosen.shuffle.sends else ()
    on = dataclasses.replace(on, devices=charging(devices, SHAPE.flops), separate_randomness=False)
    return pr.run(Replay(SHAPE, 5, batches, taking), workers=4, strategy=sending_zeros(chosen), on=on)


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("system", fewest(EVERY_SYSTEM))
def test_a_coroutine_records_what_a_program_records(system: str, hardware: str) -> None:
    programs, coroutines = (replayed(system, HARDWARE[hardware], taking) for taking in (in_program, in_coroutine))
    assert coroutines.outcome.events == programs.outcome.events
    assert coroutines.summary == programs.summary


def test_gossip_and_plain_exchanges_are_replayed_in_coroutines() -> None:
    taken: dict[str, type] = {}
    for system in ("gossipgrad", "allreduce", "ssp", "ako"):

        def noted(worker: Worker, blocking: BlockingSteps, system: str = system) -> object:
            chosen = in_coroutine(worker, blocking)
            taken[system] = type(chosen)
            return chosen

        replayed(system, HARDWARE["network"], noted)  # type: ignore[arg-type]
    assert taken == {"gossipgrad": WeightsSteps, "allreduce": CoroutineSteps, "ssp": CoroutineSteps, "ako": BlockingSteps}
