"""Learners and servers with n-softsync: what they become in lockstep, who sends what to the root, and how large batches are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from endpoints import context_of
from toy import SLOW, Toy, trained, weights

from polyrhythm import systems
from polyrhythm.consistency import Asynchronous, SoftSync
from polyrhythm.core.kernel.events import Merged, Sent
from polyrhythm.core.kernel.names import server
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Mean, SquareRootScaling
from polyrhythm.topology import BroadcastTree, Server

MOMENTUM = Toy(lambda p: torch.optim.SGD(p, lr=0.03, momentum=0.9))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("fan_out", [1, 2])
def test_in_lockstep_weights_that_come_over_a_tree_are_those_of_one_server_to_the_bit(workers: int, fan_out: int) -> None:
    tree, flat = (Strategy(topology=each) for each in (BroadcastTree(fan_out), Server()))
    assert torch.equal(weights(MOMENTUM, workers, tree), weights(MOMENTUM, workers, flat))


@pytest.mark.parametrize("system", ["rudra-adv", "rudra-adv-star"])
def test_a_tree_of_aggregators_in_lockstep_is_one_server(system: str) -> None:
    flat = weights(MOMENTUM, 5, Strategy(topology=Server()))
    torch.testing.assert_close(weights(MOMENTUM, 5, systems.find(system, groups=0)), flat, rtol=1e-5, atol=1e-6)


def test_hardsync_is_all_reduce_at_a_rate_that_grows_with_the_root_of_the_learners() -> None:
    scaled = Toy(lambda p: torch.optim.SGD(p, lr=0.03 * 2, momentum=0.9))
    torch.testing.assert_close(weights(MOMENTUM, 4, systems.find("rudra", groups=0)), weights(scaled, 4, "allreduce"))


def test_softsync_of_n_groups_divides_the_rate_by_n() -> None:
    for groups, part in ((1, 1.0), (2, 0.5), (4, 0.25)):
        strategy = systems.find("rudra", groups=groups)
        assert Mean().combine([Contribution(torch.ones(2))] * strategy.consistency.conditions.quorum(4), context_of(4)).scale == part


def traffic(strategy: Strategy, root: str, workers: int = 8) -> tuple[float, float]:
    """What comes to the root and leaves it, in models a gradient of each learner, without the beginning and the end."""
    found = []
    for epochs in (2, 6):
        on = Simulator(network=SLOW, record_sends=True)
        run = trained(Toy(epochs=epochs, batch_size=4), workers, strategy, on)
        sent = [event for event in run.outcome.events if isinstance(event, Sent)]
        found.append(
            [len([event for event in sent if end(event) == root and event.nbytes > 4 * 171]) for end in (lambda e: e.to, lambda e: e.actor)]
        )
    coming, going = ((many - few) / (4 * 3) / workers for few, many in zip(*found, strict=True))
    return coming, going


def test_aggregators_relieve_the_root_of_gradients_and_a_broadcast_tree_of_weights() -> None:
    flat = traffic(systems.find("rudra"), server(0))
    adv = traffic(systems.find("rudra-adv", group_size=4), server(2))
    star = traffic(systems.find("rudra-adv-star", group_size=2, fan_out=1), server(4))
    assert flat[0] == 1
    assert adv[0] == pytest.approx(1 / 4, rel=0.15)
    assert star[0] == pytest.approx(1 / 2, rel=0.15)
    assert adv[1] < flat[1] / 2
    assert star[1] < 1 / 4, "one copy of each version at most, for four aggregators and eight learners"


def test_a_batch_is_a_share_of_a_total_however_many_learners_there_are() -> None:
    for workers in (2, 4):
        run = trained(Toy(epochs=2, batch_size=4), workers, systems.find("rudra", samples=16), Simulator(network=Instant()))
        assert run.summary.samples == 4 * workers + (run.summary.steps - 1) * 16


def test_a_server_steps_once_a_group_and_gradients_are_as_stale_as_there_are_groups() -> None:
    for groups in (1, 2, 4):
        run = trained(Toy(epochs=6), 8, systems.find("rudra", groups=groups), Simulator(network=Instant(), shuffle_ties=1))
        merged = [event.staleness for event in run.outcome.events if isinstance(event, Merged)]
        assert {len(each) for each in merged[:-1]} == {8 // groups}
        late = [each for group in merged for each in group]
        assert sum(late) / len(late) == pytest.approx(groups, abs=1)


@pytest.mark.parametrize("make", [lambda: SquareRootScaling(0.0), lambda: BroadcastTree(0), lambda: systems.find("rudra", samples=0)])
def test_settings_without_meaning_are_refused(make: Any) -> None:
    with pytest.raises(CompositionError, match="give"):
        make()


def test_no_worker_waits_for_weights_of_a_tree_under_softsync() -> None:
    tree = Strategy(consistency=SoftSync(1, Asynchronous()), topology=BroadcastTree())
    run = trained(Toy(), 4, tree, Simulator(network=SLOW))
    waiting = trained(Toy(), 4, Strategy(consistency=SoftSync(1), topology=Server()), Simulator(network=SLOW))
    assert run.outcome.time < waiting.outcome.time
