"""Systems of two levels: what they collapse to, and what their roots carry."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from toy import Toy, trained, weights

from polyrhythm import systems
from polyrhythm.consistency import Asynchronous, Intervals, LocalSteps
from polyrhythm.core.kernel.events import Computed, Sent
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.fleet import Fleet, Straggler
from polyrhythm.hardware.network import Network
from polyrhythm.merge import HeavyBall, Sum
from polyrhythm.topology import Server

MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
PLAIN = dataclasses.replace(MOMENTUM, make=lambda parameters: torch.optim.SGD(parameters, lr=0.05))
LAN = Network.uniform("lan", "1 Gbit/s", "1 ms")


@pytest.mark.parametrize("servers", [1, 3])
def test_one_group_of_fifteen_pf_is_lockstep_with_the_whole_momentum(servers: int) -> None:
    found = weights(PLAIN, 4, systems.find("fifteen-pf", groups=1, servers=servers))
    torch.testing.assert_close(found, weights(MOMENTUM, 4, "allreduce"), rtol=1e-5, atol=1e-6)
    same = weights(MOMENTUM, 4, systems.find("fifteen-pf", groups=1, servers=servers))
    assert torch.equal(found, same), "of the workers' optimizers only the learning rate counts"


def test_the_servers_of_fifteen_pf_add_the_momentum_that_groups_leave() -> None:
    merges = [systems.find("fifteen-pf", groups=groups).merge.rule for groups in (1, 2, 4, 32)]  # type: ignore[attr-defined]
    assert [rule.momentum for rule in merges] == pytest.approx([0.9, 0.4, 0.15, 0.0])
    assert systems.find("fifteen-pf", groups=3, momentum=0.5).merge.rule == HeavyBall(0.0)  # type: ignore[attr-defined]
    with pytest.raises(CompositionError, match="at least 0 and less than 1"):
        systems.find("fifteen-pf", momentum=1.2)
    with pytest.raises(CompositionError, match="give 1 or more"):
        systems.find("fifteen-pf", groups=0)


def test_each_server_of_fifteen_pf_gets_a_layer() -> None:
    run = trained(PLAIN, 4, systems.find("fifteen-pf", groups=2, servers=2), Simulator(network=LAN, record_sends=True))
    steps = PLAIN.epochs * 3
    sent = [event for event in run.outcome.events if isinstance(event, Sent) and event.topic.endswith("ask")]
    largest = {name: max(event.nbytes for event in sent if event.to == name) for name in ("server/0", "server/1")}
    assert largest["server/0"] > 4 * (10 * 12 + 12) > largest["server/1"] > 4 * (12 * 3 + 3)
    assert len([event for event in sent if event.nbytes > 4 * 39]) >= 2 * 2 * steps


def models(strategy: Strategy, root: str) -> int:
    """How many gradients and models go to and from `root`; of headers and recipes there is much in a model of 171 elements."""
    run = trained(dataclasses.replace(MOMENTUM, epochs=6), 6, strategy, Simulator(network=LAN, record_sends=True))
    sent = [event for event in run.outcome.events if isinstance(event, Sent) and root in {event.actor, event.to}]
    return len([event for event in sent if event.nbytes > 4 * 171])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_groups_of_any_size_under_a_root_are_one_server(size: int) -> None:
    found = weights(MOMENTUM, 6, systems.find("yu", group_size=size))
    torch.testing.assert_close(found, weights(MOMENTUM, 6, "allreduce"), rtol=1e-5, atol=1e-6)


def test_one_group_of_yu_has_the_bits_of_one_server() -> None:
    assert torch.equal(weights(MOMENTUM, 4, systems.find("yu", group_size=4)), weights(MOMENTUM, 4, Strategy(topology=Server())))


@pytest.mark.parametrize("tau", [1, 3])
def test_updates_of_local_steps_go_up_as_well_to_several_roots(tau: int) -> None:
    inner = Exchange(consistency=LocalSteps(tau), topology=Server(2))
    tree = Strategy(exchange=Hierarchical(inner=inner, outer=inner, groups=2))
    flat = Strategy(exchange=inner)
    torch.testing.assert_close(weights(PLAIN, 4, tree), weights(PLAIN, 4, flat), rtol=1e-5, atol=1e-6)


def test_the_root_of_yu_carries_the_bytes_of_one_server_over_the_size_of_groups() -> None:
    flat = models(Strategy(topology=Server()), "server/0")
    for size, root in ((2, "server/3"), (3, "server/2")):
        assert models(systems.find("yu", group_size=size), root) == pytest.approx(flat / size, rel=0.02)


def test_with_slack_a_slow_group_does_not_stop_the_others() -> None:
    slow = Fleet((Device("slow", 1e6),), (Straggler(worker=5, factor=4.0),))
    last = []
    for slack in (0, 8):
        run = trained(MOMENTUM, 6, systems.find("yu", slack=slack), Simulator(network=LAN, devices=slow))
        last.append(max(event.time for event in run.outcome.events if isinstance(event, Computed) and event.actor == "worker/0"))
        assert run.final["loss"] < 1.2
    assert last[1] < last[0] / 2


@pytest.mark.parametrize(
    ("inner", "outer", "message"),
    [
        (Exchange(consistency=Asynchronous(), topology=Server()), Exchange(topology=Server()), "one by one"),
        (Exchange(topology=Server()), Exchange(consistency=LocalSteps(1), topology=Server()), "add up gradients"),
        (Exchange(topology=Server()), Exchange(consistency=Intervals(), topology=Server()), "waits for the response"),
        (Exchange(topology=Server(), merge=Sum()), Exchange(topology=Server()), "is no mean"),
    ],
)
def test_levels_that_do_not_fit_are_refused(inner: Exchange, outer: Exchange, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        Hierarchical(inner=inner, outer=outer)
