"""Li et al.'s parameter server as a system: what its settings collapse to."""

from __future__ import annotations

import pytest
import torch
from toy import Toy, weights

from polyrhythm import systems
from polyrhythm.codec import KKT, KeyList, RandomSkip
from polyrhythm.merge import Mean, ProximalSGD
from polyrhythm.strategy import Strategy
from polyrhythm.topology import Server

TOY = Toy(epochs=1)


def test_without_a_delay_and_a_penalty_it_is_a_synchronous_server() -> None:
    found = weights(TOY, 3, systems.find("li-ps", delay=0))
    assert torch.equal(found, weights(TOY, 3, Strategy(topology=Server(), merge=ProximalSGD())))
    torch.testing.assert_close(found, weights(TOY, 3, Strategy(topology=Server(), merge=Mean())))


@pytest.mark.parametrize("settings", [{"servers": 1, "replicas": 0}, {"servers": 4, "replicas": 3}])
def test_servers_and_replicas_change_no_bit(settings: dict[str, int]) -> None:
    assert torch.equal(weights(TOY, 3, systems.find("li-ps", delay=0, **settings)), weights(TOY, 3, systems.find("li-ps", delay=0)))


def test_filters_are_chosen() -> None:
    assert systems.find("li-ps", penalty=0.1).codec == KKT(KeyList(), 0.1)
    assert systems.find("li-ps", skip=0.2).codec == KKT(RandomSkip(KeyList(), 0.2), 0.0)
    assert systems.find("li-ps", delay=None).order_matters
    assert not systems.find("li-ps", delay=0).order_matters
