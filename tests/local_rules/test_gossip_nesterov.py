"""NoLoCo: momentum over rounds, in pairs that change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toy import Toy, weights

from polyrhythm import systems
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.local_rules import GossipNesterov
from polyrhythm.topology import Gossip, RandomPairs

SIZE, RATE, TAU, SEED = 3, 0.1, 2, 5


@pytest.mark.parametrize("workers", [1, 4, 5])
def test_without_momentum_and_with_whole_steps_the_weights_of_pairs_are_averaged(workers: int) -> None:
    plain = Strategy(consistency=LocalSteps(TAU), topology=Gossip(RandomPairs()))
    noloco = systems.find("noloco", period=TAU, outer_momentum=0, outer_learning_rate=1, mixing_rate=1)
    torch.testing.assert_close(weights(Toy(), workers, noloco), weights(Toy(), workers, plain), rtol=0, atol=1e-6)


def ran(workers: int, rounds: int, rule: GossipNesterov) -> Tensor:
    """The slow weights (P, n) after so many rounds of steps towards the rank."""
    found = torch.zeros(workers, SIZE, dtype=torch.float64)

    def train(worker: Any) -> None:
        w = nn.Parameter(torch.zeros(SIZE, dtype=torch.float64))
        _, optimizer = worker.attach(nn.ParameterList([w]), torch.optim.SGD([w], lr=RATE))
        for _ in range(TAU * rounds):
            worker.count(1)
            w.grad = w.detach() - worker.rank
            optimizer.step()
        found[worker.rank] = w.detach()

    run(
        train,
        workers=workers,
        strategy=Strategy(consistency=LocalSteps(TAU), topology=Gossip(RandomPairs()), local=rule),
        on=Simulator(network=Instant()),
        seed=SEED,
    )
    return found


@pytest.mark.parametrize("workers", [4, 5])
def test_a_run_is_the_recursion_of_the_paper(workers: int) -> None:
    alpha, beta, gamma, rounds = 0.4, 0.6, 0.9, 6
    target = torch.arange(workers, dtype=torch.float64)[:, None].expand(workers, SIZE)
    slow, momentum = torch.zeros(workers, SIZE, dtype=torch.float64), torch.zeros(workers, SIZE, dtype=torch.float64)
    for number in range(rounds):
        fast = slow
        for _ in range(TAU):
            fast = fast - RATE * (fast - target)
        groups = [[rank, *RandomPairs().neighbours(number, Group.of_workers(workers, rank, SEED))[0]] for rank in range(workers)]
        mean_slow, mean_done = (torch.stack([each[group].mean(0) for group in groups]) for each in (slow, slow - fast))
        momentum = alpha * momentum - beta * mean_done - gamma * (slow - mean_slow)
        slow = slow + momentum
    torch.testing.assert_close(ran(workers, rounds, GossipNesterov(alpha, beta, gamma)), slow, rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", [{"alpha": 1.0}, {"beta": 0.0}, {"gamma": 0.0}, {"alpha": 0.0, "gamma": 2.0}, {"beta": float("nan")}])
def test_settings_that_do_not_converge_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(CompositionError, match="would not converge: give an alpha"):
        GossipNesterov(**settings)
