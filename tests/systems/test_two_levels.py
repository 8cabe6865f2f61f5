"""Systems of two levels: what they collapse to, and what their roots carry."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from toy import Toy, trained, weights

from polyrhythm import systems
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.network import Network
from polyrhythm.kernel.events import Sent
from polyrhythm.merge import HeavyBall
from polyrhythm.simulator.simulator import Simulator

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
