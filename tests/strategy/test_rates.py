"""How much a contribution counts is sent to the learning rate: an adaptive optimizer would take no notice of a smaller gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from endpoints import context_of
from test_collapse import OPTIMIZERS, UNEVEN, each_optimizer, plain
from toy import SLOW, Toy, data, network, trained, weights

from polyrhythm import systems
from polyrhythm.consistency import Asynchronous, Bounded, LocalSteps
from polyrhythm.core import rng
from polyrhythm.core.protocols.merge import Contribution, Merge
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.strategy.rates import at
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import run
from polyrhythm.core.weights.remote_optimizer import RemoteOptimizer, describe
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.local_rules import ResetMoments
from polyrhythm.merge import Mean, StalenessScaled, Sum
from polyrhythm.topology import AllReduce, AllToAll, Bucketed, Server

LAYOUT = Layout(("w",), ((6,),))


def moved(toy: Toy, strategy: Strategy) -> float:
    """How far the weights are from where they began, at four workers of which some are slow."""
    rng.seed_everything(5, "worker", 0)
    start = torch.cat([p.detach().reshape(-1) for p in network().parameters()])
    return (weights(toy, 4, strategy, Simulator(network=SLOW, devices=UNEVEN)) - start).norm().item()


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
@pytest.mark.parametrize("topology", [Server(2), AllToAll()], ids=repr)
def test_one_after_the_other_contributions_move_about_as_far_as_all_at_once(topology: Any, optimizer: str) -> None:
    """Each counts 1 / P. If that were sent to gradients alone, Adam would take P full steps a round: up to four times as far."""
    toy = Toy(OPTIMIZERS[optimizer], epochs=1)
    together = moved(toy, Strategy(topology=topology))
    assert 0.5 < moved(toy, Strategy(consistency=Asynchronous(), topology=topology)) / together < 2


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_a_sum_of_contributions_that_come_one_by_one_moves_further_than_their_mean(optimizer: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer], epochs=1)
    assert moved(toy, Strategy(consistency=Asynchronous(), topology=Server(), merge=Sum())) > 2.5 * moved(
        toy, Strategy(consistency=Asynchronous(), topology=Server())
    )


@each_optimizer
@pytest.mark.parametrize("topology", [AllReduce(), Bucketed(nbytes=32), Server(2), AllToAll()], ids=repr)
def test_the_sum_of_all_is_the_plain_loop_at_as_many_times_the_learning_rate(topology: Any, optimizer: str) -> None:
    def faster(parameters: Any) -> torch.optim.Optimizer:
        made = OPTIMIZERS[optimizer](parameters)
        for group in made.param_groups:
            group["lr"] *= 4
        return made

    summed = weights(Toy(OPTIMIZERS[optimizer]), 4, Strategy(topology=topology, merge=Sum()))
    torch.testing.assert_close(summed, plain(Toy(faster), batch_size=32), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_staleness_scaling_shrinks_the_move_alike_under_every_optimizer(optimizer: str) -> None:
    """With four workers of unequal speed most contributions are two to four merges late."""
    toy = Toy(OPTIMIZERS[optimizer], epochs=1)
    whole, scaled = (
        moved(toy, Strategy(consistency=Asynchronous(), topology=Server(), merge=merge)) for merge in (Sum(), StalenessScaled())
    )
    assert 0.25 < scaled / whole < 0.75


@each_optimizer
@pytest.mark.parametrize(
    ("merge", "contribution", "scale"),
    [(StalenessScaled(), {"staleness": 4}, 1 / 4), (Mean(), {}, 1 / 8), (Sum(), {"count": 3}, 3.0)],
    ids=str,
)
def test_a_hosted_optimizer_moves_as_far_as_a_contribution_counts(
    merge: Merge, contribution: dict[str, int], scale: float, optimizer: str
) -> None:
    ended = []
    for rule, how in ((merge, contribution), (StalenessScaled(), {})):
        shard = torch.zeros(6)
        made = OPTIMIZERS[optimizer]([parameter := torch.nn.Parameter(shard)])
        made.param_groups[0]["weight_decay"] = 0.0  # decay depends on where the weights are
        model_state = ModelState(
            shard, LAYOUT, rule, context_of(8), RemoteOptimizer(describe(made, {id(parameter): "w"}), shard, LAYOUT).step_on
        )
        draw = torch.Generator().manual_seed(3)
        for _ in range(6):
            gradient = torch.randn(6, generator=draw)
            model_state.move([Contribution(gradient * how.get("count", 1), rates=(made.param_groups[0]["lr"],), **how)])
        ended.append(shard)
    torch.testing.assert_close(ended[0], scale * ended[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rate", [0.1, torch.tensor(0.1)], ids=["a number", "a tensor"])
def test_a_learning_rate_is_multiplied_for_one_step_and_then_is_what_it_was(rate: Any) -> None:
    parameters = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": parameters[:1], "lr": rate}, {"params": parameters[1:], "lr": 0.3}])
    for parameter in parameters:
        parameter.grad = torch.ones(2)
    with at(optimizer, (float(rate) * 4, 0.3)):
        optimizer.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == pytest.approx(0.1)
    torch.testing.assert_close(parameters[0].detach(), torch.full((2,), -0.4))
    torch.testing.assert_close(parameters[1].detach(), torch.full((2,), -0.3))


def test_a_learning_rate_comes_back_when_the_step_fails() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    with pytest.raises(ZeroDivisionError), at(optimizer, (0.4,)):
        raise ZeroDivisionError
    assert optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize(
    "pieces",
    [{"merge": Sum()}, {"consistency": Asynchronous(), "topology": Server()}, {"consistency": Bounded(2), "topology": AllToAll()}],
    ids=repr,
)
def test_an_optimizer_whose_steps_do_not_follow_its_rate_is_refused_where_rates_are_weights(pieces: dict[str, Any]) -> None:
    toy = Toy(lambda parameters: torch.optim.Rprop(parameters, lr=0.01))
    with pytest.raises(CompositionError, match=r"Rprop's steps are not proportional.*BulkSynchronous with Mean"):
        trained(toy, 2, Strategy(**pieces))
    assert trained(toy, 2, Strategy(topology=Server())).summary.steps == 12
    assert trained(toy, 1, Strategy(**pieces)).summary.steps == 24


# Optimizers of merges that take the workers' learning rate


RATED = ["slowmo", "elephas-asynchronous"]


def grouped(first: float, later: float) -> Callable[[Any], torch.optim.Optimizer]:
    """SGD of two groups, the first with a learning rate of its own."""

    def make(parameters: Any) -> torch.optim.Optimizer:
        head, *rest = parameters
        return torch.optim.SGD([{"params": [head], "lr": first}, {"params": rest}], lr=later)

    return make


@pytest.mark.parametrize("system", RATED)
def test_several_rates_are_refused_where_the_merge_of_updates_takes_one(system: str) -> None:
    with pytest.raises(CompositionError, match=r"steps with one learning rate, and the optimizer's groups have 0\.0, 0\.1: give all"):
        trained(Toy(grouped(0.0, 0.1)), 2, system)
    trained(Toy(grouped(0.1, 0.1), epochs=1), 2, system)


@pytest.mark.parametrize("system", ["diloco", systems.find("elephas-asynchronous", outer_learning_rate=0.1), "sparknet"], ids=str)
def test_several_rates_will_do_where_the_merge_of_updates_has_one_of_its_own(system: Any) -> None:
    frozen, moving = (trained(Toy(grouped(first, 0.1), epochs=1), 2, system).weights for first in (0.0, 0.1))
    assert not any(torch.equal(frozen[name], moving[name]) for name in ("0.weight", "2.weight"))
    still = trained(Toy(grouped(0.0, 0.0), epochs=1), 2, system).weights
    assert [torch.equal(frozen[name], still[name]) for name in ("0.weight", "2.weight")] == [True, False]


@pytest.mark.parametrize("tau", [3, 100])
def test_what_the_last_steps_did_counts_with_the_rate_that_they_were_taken_with(tau: int) -> None:
    """A schedule ends at zero after the last step; slow momentum without any memory is the mean of the updates."""

    def train(worker: Any) -> None:
        model, optimizer = worker.attach(model := network(), torch.optim.SGD(model.parameters(), lr=0.1))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 8)
        for x, y in worker.batches(tuple(part[:64] for part in data()), batch_size=4):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
        assert optimizer.param_groups[0]["lr"] == 0

    averaged = Strategy(consistency=LocalSteps(tau), local=ResetMoments())
    found = [
        run(train, workers=2, strategy=each, on=Simulator(), seed=5).weights
        for each in (systems.find("slowmo", period=tau, outer_momentum=0.0), averaged)
    ]
    for name, value in found[1].items():
        torch.testing.assert_close(found[0][name], value, rtol=1e-5, atol=1e-6)
