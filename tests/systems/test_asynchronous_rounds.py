"""Buffered and asynchronous local SGD: they are lockstep where all wait, and who is slower takes fewer local steps."""

from __future__ import annotations

import pytest
import torch
from endpoints import context_of
from toy import Toy, trained, weights

import polyrhythm as pr
from polyrhythm.core.kernel.events import Adjusted, Merged
from polyrhythm.core.protocols.controller import ControlledSetting, Measurements, WorkerMeasure
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.systems import find

LAYOUT = Layout(("w",), ((3,),))
UPDATES = [torch.tensor(values) for values in ([1.0, -2.0, 3.0], [0.5, 0.5, -1.0], [2.0, 0.0, 1.0], [-1.0, 4.0, 0.25])]


def test_a_buffer_of_all_is_lockstep_bit_for_bit() -> None:
    rounds = pr.consistency.LocalSteps(3, pr.consistency.Buffered(4, pr.consistency.BulkSynchronous()))
    buffered = Strategy(consistency=rounds, topology=pr.topology.Server(), merge=pr.merge.PolynomialStaleness())
    assert torch.equal(weights(Toy(), 4, buffered), weights(Toy(), 4, find("sparknet", period=3)))


def test_the_server_merges_as_many_as_the_buffer_has() -> None:
    run = trained(Toy(epochs=6), 4, find("fedbuff", buffer=2, period=3))
    groups = [event.staleness for event in run.outcome.events if isinstance(event, Merged)]
    assert [len(group) for group in groups] == [2] * (4 * 6 // 2)
    assert any(late for group in groups for late in group)


@pytest.mark.parametrize(("power", "expected"), [(0.5, 0.5), (1.0, 0.25), (0.0, 1.0)])
def test_late_updates_count_by_a_power_of_their_staleness(power: float, expected: float) -> None:

    direction = pr.merge.PolynomialStaleness(power).combine([Contribution(UPDATES[0], staleness=3)], context_of(4))
    torch.testing.assert_close(direction.move(), expected * UPDATES[0])


def test_delayed_momentum_of_single_updates_is_nesterov_bit_for_bit() -> None:
    delayed, plain = pr.merge.DelayedNesterov(every=1), pr.merge.Nesterov()
    mine, theirs = delayed.initial(LAYOUT), plain.initial(LAYOUT)
    for update in UPDATES:
        step, mine = delayed.step(update, mine, 0.0)
        expected, theirs = plain.step(update, theirs, 0.0)
        assert torch.equal(step, expected)


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_momentum_moves_once_in_as_many_updates_as_there_are_workers(workers: int) -> None:
    follows, given = pr.merge.DelayedNesterov(), pr.merge.DelayedNesterov(every=workers)
    mine, theirs = follows.initial(LAYOUT), given.initial(LAYOUT)
    for update in UPDATES:
        step, mine = follows.step(update, mine, 0.0, workers)
        expected, theirs = given.step(update, theirs, 0.0, workers + 1)
        assert torch.equal(step, expected)
    job = Toy(epochs=4)
    as_many, other = (find("async-local-sgd", period=2, momentum_period=every) for every in (workers, workers + 1))
    hashes = [trained(job, workers, each).summary.weights_sha256 for each in (find("async-local-sgd", period=2), as_many, other)]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("spread", [0.0, 0.4, 1.0])
def test_a_round_of_delayed_momentum_moves_as_far_as_nesterov_on_the_mean(spread: float) -> None:
    delayed, plain = pr.merge.DelayedNesterov(every=4, spread=spread), pr.merge.Nesterov()
    state, theirs = delayed.initial(LAYOUT), plain.initial(LAYOUT)
    _, before = plain.step(torch.zeros(3), theirs, 0.0)
    moved = torch.zeros(3)
    for update in UPDATES:
        step, state = delayed.step(update, state, 0.0)
        moved += step / 4  # as Mean has it for one of four
    expected, _ = plain.step(sum(UPDATES) / 4, before, 0.0)  # type: ignore[arg-type]
    if spread == 0:
        torch.testing.assert_close(moved, expected)
    assert state["count"].item() == 0
    torch.testing.assert_close(state["momentum"], sum(UPDATES) / 4)


def test_a_worker_takes_its_share_of_the_local_steps_of_the_fastest() -> None:
    measures = {name: WorkerMeasure(seconds, 8) for name, seconds in (("worker/0", 0.1), ("worker/1", 0.2), ("worker/2", 5.0))}
    steps = {}
    for name in measures:
        decisions, _ = pr.controllers.LocalStepShares(10).decide(Measurements(10, name, measures, {}, 100, 3), {})
        (decision,) = decisions
        assert decision.setting is ControlledSetting.LOCAL_STEPS
        steps[name] = decision.value
    assert steps == {"worker/0": 10, "worker/1": 5, "worker/2": 1}


def test_slow_workers_exchange_as_often_as_fast_ones() -> None:
    fleet = pr.hardware.Fleet((pr.hardware.Profile("a step of 10 ms", (0.01,)),), (pr.hardware.Mixed((1.0, 0.5, 0.25)),))
    run = trained(Toy(epochs=24), 3, "async-local-sgd", pr.Simulator(network=pr.Instant(), devices=fleet))
    last = {event.actor: event.value for event in run.outcome.events if isinstance(event, Adjusted)}
    assert last == {"worker/0": 10, "worker/1": 5, "worker/2": 2}


def test_numbers_of_steps_that_workers_would_wait_for_are_refused() -> None:
    with pytest.raises(CompositionError, match="nobody waits"):
        pr.consistency.PacedLocalSteps(4, pr.consistency.BulkSynchronous())
    with pytest.raises(CompositionError, match=r"LocalStepShares sets local steps, which LocalSteps does not have"):
        Strategy(consistency=pr.consistency.LocalSteps(4), topology=pr.topology.Server(), controller=pr.controllers.LocalStepShares(4))
    for make in (
        lambda: pr.consistency.Buffered(0),
        lambda: pr.consistency.PacedLocalSteps(0),
        lambda: pr.controllers.LocalStepShares(0),
        lambda: pr.merge.DelayedNesterov(every=0),
    ):
        with pytest.raises(CompositionError, match="give"):
            make()
