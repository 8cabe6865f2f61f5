"""Li et al.'s parameter server as a system: what its settings collapse to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy import Toy, weights

from polyrhythm import systems
from polyrhythm.codec import KKT, FeatureBlocks, KeyList, RandomSkip
from polyrhythm.codec.feature_blocks import block_at
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.merge import Mean, ProximalSGD
from polyrhythm.topology import Server

TOY = Toy(epochs=1)


def test_without_a_delay_and_a_penalty_it_is_a_synchronous_server() -> None:
    found = weights(TOY, 3, systems.find("li-ps", slack=0))
    assert torch.equal(found, weights(TOY, 3, Strategy(topology=Server(), merge=ProximalSGD())))
    torch.testing.assert_close(found, weights(TOY, 3, Strategy(topology=Server(), merge=Mean())))


@pytest.mark.parametrize("settings", [{"servers": 1, "replicas": 0}, {"servers": 4, "replicas": 3}])
def test_servers_and_replicas_change_no_bit(settings: dict[str, int]) -> None:
    assert torch.equal(weights(TOY, 3, systems.find("li-ps", slack=0, **settings)), weights(TOY, 3, systems.find("li-ps", slack=0)))


def test_filters_are_chosen() -> None:
    assert systems.find("li-ps", penalty=0.1).codec == KKT(KeyList(), 0.1)
    assert systems.find("li-ps", skip=0.2).codec == KKT(RandomSkip(KeyList(), 0.2), 0.0)
    assert systems.find("li-ps", parts=4).codec == FeatureBlocks(KKT(KeyList(), 0.0), 4)
    assert systems.find("li-ps", slack=None).order_matters
    assert not systems.find("li-ps", slack=0).order_matters


CENTRE, RATE, PENALTY, SEED = torch.linspace(-1, 1, 24).view(3, 8), 0.5, 0.2, 7


def towards_the_centre(worker: Any) -> None:
    """The gradient of |w - c|² / 2, on 12 steps."""
    model = torch.nn.Linear(8, 3, bias=False)
    torch.nn.init.zeros_(model.weight)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=RATE))
    for _ in range(12):
        worker.count(1)
        optimizer.zero_grad()
        ((model.weight - CENTRE) ** 2 / 2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("blocks", [1, 4, 5])
def test_blocks_of_features_take_proximal_steps_by_turns(blocks: int) -> None:
    """The weights that a dense loop over blocks comes to; none moves, not by the threshold either, in another block's step."""
    on = Simulator(network=Instant())
    strategy = systems.find("li-ps", slack=0, servers=1, replicas=0, penalty=PENALTY, parts=blocks)
    found = run(towards_the_centre, workers=2, strategy=strategy, on=on, seed=SEED).weights["weight"].view(-1)
    weights, centre = torch.zeros(24), CENTRE.view(-1)
    seen: list[int] = []
    for step in range(1, 13):
        block = block_at(step, blocks, SEED)
        seen.append(block)
        part = slice(24 * block // blocks, 24 * (block + 1) // blocks)
        moved = weights[part] - RATE * (weights[part] - centre[part])
        weights[part] = moved.sign() * (moved.abs() - RATE * PENALTY).clamp(min=0)
    torch.testing.assert_close(found, weights)
    assert set(seen[:blocks]) == set(range(blocks)), "each once in a turn"
    assert (found == 0).any(), "the penalty holds some at zero"


def test_blocks_send_less_than_all_features() -> None:
    settings = {"slack": 1, "penalty": PENALTY}
    sent = []
    for blocks in (1, 4):
        done = run(towards_the_centre, workers=2, strategy=systems.find("li-ps", parts=blocks, **settings), on=Simulator(), seed=SEED)
        sent.append(done.summary.bytes_sent)
    assert sent[1] < sent[0]
