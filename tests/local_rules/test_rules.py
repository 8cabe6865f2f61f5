"""Rules for local steps: what optimizers remember is averaged, duals pull to a consensus, a worker may keep its own weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from endpoints import context_of
from torch import Tensor, nn
from toy import SLOW, Toy, data, network, trained, weights

from polyrhythm.consistency import Bounded, Every, LocalSteps
from polyrhythm.core.kernel.events import Agreed
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import LocalRule
from polyrhythm.core.protocols.topology import Topology
from polyrhythm.core.protocols.traits import LOCAL
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.groups import InGroups
from polyrhythm.local_rules import MEMBERS, AverageMoments, Consensus, KeepOwn, PlainSteps, Proximal, ResetMoments
from polyrhythm.merge import Mean
from polyrhythm.topology import MEMBERS as TOPOLOGIES
from polyrhythm.topology import AggregationTree, AllReduce, Alone, Delayed, Gossip, Server

SGD = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05))
MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
ADAM = Toy(lambda parameters: torch.optim.Adam(parameters, lr=0.01))
LAYOUT = Layout(("w",), ((3,),))


class _NoMoments:
    def reset(self) -> None:
        pass


def seen(w: Tensor, moved: Tensor) -> ExchangeContext:
    return replace(context_of(4), source=lambda: w, update=lambda: moved)


@pytest.mark.parametrize("rule", MEMBERS, ids=repr)
def test_a_rule_writes_to_nothing_that_it_is_given_and_keeps_the_type_of_the_weights(rule: LocalRule) -> None:
    for dtype in (torch.float32, torch.float64):
        gradient, w, moved = torch.tensor([1.0, 2, 3], dtype=dtype), torch.tensor([3.0, 0, 1], dtype=dtype), torch.ones(3, dtype=dtype)
        context = seen(w, moved)
        hooks = rule.hooks
        state = hooks.initial(LAYOUT)
        if hooks.correct is not None:
            assert hooks.correct(gradient, context, state).dtype == dtype
        if hooks.settle is not None:
            hooks.figures(hooks.settle(context, state, _NoMoments()))
        assert (gradient.tolist(), w.tolist(), moved.tolist()) == ([1, 2, 3], [3, 0, 1], [1, 1, 1])


# Moments


def remembering(rule: LocalRule, optimizer: Toy, workers: int = 3, on: Runtime | None = None, topology: Any = None) -> list[list[Tensor]]:
    """What each worker's optimizer remembers when the run ends, after 4 steps in rounds of 2."""
    found: list[list[Tensor]] = [[] for _ in range(workers)]

    def train(worker: Any) -> None:
        model = network()
        model, made = worker.attach(model, optimizer.make(model.parameters()))
        x, y = data()
        for step in range(4):
            worker.count(8)
            at = 8 * (4 * worker.rank + step)
            made.zero_grad()
            nn.functional.cross_entropy(model(x[at : at + 8]), y[at : at + 8]).backward()
            made.step()
        found[worker.rank] = [v.clone() for p in model.parameters() for v in made.state[p].values() if isinstance(v, Tensor)]

    strategy = Strategy(consistency=LocalSteps(2), topology=topology or AllReduce(), local=rule)
    run(train, workers=workers, strategy=strategy, on=on or Simulator(network=Instant()), seed=5)
    return found


TOGETHER = [
    *(each for each in TOPOLOGIES if Capability.COLLECTIVES in each.traits.provides and LOCAL & each.traits.payloads),
    Delayed(AllReduce(), 0),
]


@pytest.mark.parametrize("topology", [each for each in TOGETHER if each != Alone()], ids=repr)
def test_averaged_moments_are_the_same_at_all_workers(topology: Topology) -> None:
    first, *others = remembering(AverageMoments(), MOMENTUM, topology=topology)
    assert first
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM], ids=["momentum", "adam"])
def test_moments_that_are_not_averaged_stay_apart(optimizer: Toy) -> None:
    apart, together = remembering(PlainSteps(), optimizer), remembering(AverageMoments(), optimizer)
    assert not all(torch.equal(a, b) for a, b in zip(apart[0], apart[1], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(together[0], together[1], strict=True))


def test_averaged_moments_are_the_mean_of_what_workers_remember() -> None:
    """With weights that do not depend on them (a learning rate of 0) momentum is a sum of gradients that both runs have."""
    still = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.0, momentum=0.5))
    kept, averaged = remembering(PlainSteps(), still), remembering(AverageMoments(), still)
    for column, mean in zip(zip(*kept, strict=True), averaged[0], strict=True):
        torch.testing.assert_close(mean, torch.stack(column).mean(0), rtol=1e-5, atol=1e-7)


def test_averaging_moments_is_synchronous_momentum_where_every_step_is_averaged() -> None:
    local = Strategy(consistency=LocalSteps(1), local=AverageMoments())
    torch.testing.assert_close(weights(MOMENTUM, 4, local), weights(MOMENTUM, 4, "allreduce"), rtol=1e-5, atol=1e-6)


def test_moments_are_sent_in_full_and_counted() -> None:
    """Momentum is as large as the weights, Adam has twice that and counts; and before, a number for each of four tensors."""
    numel = sum(parameter.numel() for parameter in network().parameters())
    sent = {}
    for name, toy in {"sgd": SGD, "momentum": MOMENTUM, "adam": ADAM}.items():
        for rule in (PlainSteps(), AverageMoments()):
            strategy = Strategy(consistency=LocalSteps(2), topology=AllReduce(AggregationTree(1)), local=rule)
            sent[name, rule] = trained(toy, 3, strategy).summary
    rounds, messages = 4, 4  # 8 steps of each worker; two to the driver and two from it
    for name, words in {"sgd": 4, "momentum": 4 + numel, "adam": 4 + 2 * numel + 4}.items():
        more = sent[name, AverageMoments()].bytes_sent - sent[name, PlainSteps()].bytes_sent
        headers = more - rounds * messages * 4 * words
        assert 0 < headers <= rounds * messages * 48 * (1 if name == "sgd" else 2), "a header and a topic"


def test_alone_nothing_is_averaged_and_no_bit_changes() -> None:
    for topology in (Alone(), AllReduce()):
        rules = [Strategy(consistency=LocalSteps(2), topology=topology, local=rule) for rule in (PlainSteps(), AverageMoments())]
        assert torch.equal(weights(ADAM, 1, rules[0]), weights(ADAM, 1, rules[1]))


def test_where_a_parameter_had_no_gradient_its_state_counts_as_zeros_and_none_at_all_stays_none() -> None:
    """The last layer is used by worker 1 alone, the one next to it by none."""
    found: list[Any] = [None, None]

    def train(worker: Any) -> None:
        model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)])
        model, optimizer = worker.attach(model, MOMENTUM.make(model.parameters()))
        worker.count(1)
        (model[0] if worker.rank == 0 else nn.Sequential(model[0], model[2]))(torch.ones(1, 2)).sum().backward()
        mine = model[2].weight.grad
        optimizer.step()
        found[worker.rank] = (mine, [dict(optimizer.state.get(layer.weight, {})) for layer in model])

    run(train, workers=2, strategy=Strategy(consistency=LocalSteps(1), local=AverageMoments()), on=Simulator(network=Instant()))
    for rank in range(2):
        assert not found[rank][1][1]
        torch.testing.assert_close(found[rank][1][2]["momentum_buffer"], found[1][0] / 2)
    assert torch.equal(found[0][1][0]["momentum_buffer"], found[1][1][0]["momentum_buffer"])


@pytest.mark.parametrize("optimizer", [SGD, MOMENTUM, ADAM], ids=["sgd", "momentum", "adam"])
@pytest.mark.parametrize("late", [[1], [0, 2]], ids=repr)
def test_workers_that_had_no_gradient_before_the_first_exchange_get_the_mean_too(optimizer: Toy, late: list[int]) -> None:
    """They have no state at all when the others average theirs; afterwards all have the same."""
    found: list[Any] = [None] * 3

    def train(worker: Any) -> None:
        model = network()
        model, made = worker.attach(model, optimizer.make(model.parameters()))
        for step in (1, 2):
            x, y = batch(worker.rank, step, 3)
            worker.count(8)
            made.zero_grad()
            if worker.rank not in late:
                nn.functional.cross_entropy(model(x), y).backward()
            made.step()
        found[worker.rank] = [value.clone() for p in model.parameters() for _, value in sorted(made.state[p].items()) if value is not None]

    run(train, workers=3, strategy=Strategy(consistency=LocalSteps(2), local=AverageMoments()), on=Simulator(network=Instant()))
    assert bool(found[0]) == (optimizer is not SGD)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_groups_of_one_optimizer_may_remember_different_things() -> None:
    def groups(parameters: Any) -> torch.optim.Optimizer:
        first, *rest = parameters
        return torch.optim.Adam([{"params": [first]}, {"params": rest, "amsgrad": True}], lr=0.01)

    first, *others = remembering(AverageMoments(), Toy(groups))
    assert len(first) == 3 + 3 * 4
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_moments_are_averaged_only_by_workers_that_act_together() -> None:
    for pieces in ({"topology": Server()}, {"topology": Gossip()}, {"topology": Server(), "consistency": LocalSteps(2, Bounded(2))}):
        with pytest.raises(CompositionError, match=r"AverageMoments needs sums and gathers in which all workers take part, .* and over"):
            Strategy(**{"consistency": LocalSteps(2), **pieces}, local=AverageMoments())
    for hierarchy in (
        lambda: Hierarchical(outer=Exchange(consistency=LocalSteps(2), local=AverageMoments()), groups=InGroups(2)),
        lambda: Hierarchical(
            inner=Exchange(consistency=LocalSteps(1), local=AverageMoments()), outer=Exchange(consistency=LocalSteps(2)), groups=InGroups(2)
        ),
    ):
        with pytest.raises(CompositionError, match=r"AverageMoments\(\)"):
            hierarchy()


# Consensus


def admm_by_hand(rho: float, tau: int, steps: int, workers: int) -> tuple[Tensor, list[float]]:
    """z after `steps` of each worker, and the primal residuals of worker 0, in plain loops; batches as `given` deals them."""
    models = [network() for _ in range(workers)]
    torch.manual_seed(3)
    start = [torch.randn_like(parameter) for parameter in models[0].parameters()]
    flat = torch.cat([each.view(-1) for each in start])
    z, ws, us = flat.clone(), [flat.clone() for _ in models], [torch.zeros_like(flat) for _ in models]
    residuals = []
    for step in range(1, steps + 1):
        for rank, model in enumerate(models):
            nn.utils.vector_to_parameters(ws[rank], model.parameters())
            model.zero_grad()
            x, y = batch(rank, step, workers)
            nn.functional.cross_entropy(model(x), y).backward()
            gradient = torch.cat([parameter.grad.view(-1) for parameter in model.parameters()])  # type: ignore[union-attr]
            ws[rank] = ws[rank] - 0.05 * (gradient + rho * (ws[rank] - z + us[rank]))
        if step % tau == 0:
            z = torch.stack([w + u for w, u in zip(ws, us, strict=True)]).mean(0)
            us = [u + w - z for w, u in zip(ws, us, strict=True)]
            residuals.append(((ws[0] - z).norm() / z.norm()).item())
    return z, residuals


def batch(rank: int, step: int, workers: int) -> tuple[Tensor, Tensor]:
    """Of each worker its own samples, over and over."""
    x, y = data()
    size = len(x) // workers
    at = rank * size + 8 * (step % (size // 8))
    return x[at : at + 8], y[at : at + 8]


def admm(steps: int) -> Callable[[Any], None]:
    def train(worker: Any) -> None:
        model = network()
        torch.manual_seed(3)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
        for step in range(1, steps + 1):
            x, y = batch(worker.rank, step, worker.workers)
            worker.count(len(x))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    return train


def test_consensus_is_scaled_admm_with_warm_starts_whose_result_is_z() -> None:
    strategy = Strategy(consistency=LocalSteps(4), topology=AllReduce(AggregationTree(1)), local=Consensus(0.5))
    for on in (Simulator(network=SLOW), Processes()):
        found = run(admm(16), workers=3, strategy=strategy, on=on, seed=5)
        z, residuals = admm_by_hand(0.5, 4, 16, 3)
        torch.testing.assert_close(torch.cat([v.view(-1) for v in found.weights.values()]), z, rtol=1e-4, atol=1e-5)
        events = [event for event in found.outcome.events if isinstance(event, Agreed) and event.actor == "worker/0"]
        assert [event.clock for event in events] == [4, 8, 12, 16]
        assert [event.figures["primal_residual"] for event in events] == pytest.approx(residuals, rel=1e-3)


def test_duals_survive_between_rounds_and_sum_to_zero() -> None:
    """In steps of each kind over many rounds, with numbers that are exact."""
    rule, z = Consensus(0.5), torch.zeros(3)
    states = [rule.initial(LAYOUT) for _ in range(4)]
    draw = torch.Generator().manual_seed(2)
    for _ in range(5):
        ws = [torch.randint(-8, 9, (3,), generator=draw).float() for _ in states]
        z = torch.stack(ws).mean(0)
        states = [rule.settle(seen(z, z - w), state, _NoMoments()) for w, state in zip(ws, states, strict=True)]
        assert all(state["u"].any() for state in states)
        assert not torch.stack([state["u"] for state in states]).sum(0).any()


def test_one_worker_is_its_own_consensus() -> None:
    """The dual stays 0, and the penalty pulls to the weights of the last exchange, as FedProx has it."""
    rules = [Strategy(consistency=LocalSteps(4), local=rule) for rule in (Consensus(0.5), Proximal(0.5))]
    torch.testing.assert_close(weights(SGD, 1, rules[0]), weights(SGD, 1, rules[1]), rtol=0, atol=1e-6)


# A part of one's own


def test_a_worker_goes_on_from_its_own_weights_in_part_and_the_result_is_what_was_agreed_on() -> None:
    """One round of one step, from equal weights: with half of its own each is halfway when it computes the next gradient."""
    after: dict[float, list[Tensor]] = {}
    for part in (0.0, 0.5, 1.0):
        after[part] = [torch.zeros(0)] * 2

        def train(worker: Any, part: float = part) -> None:
            model = network()
            model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.5))
            x, y = batch(worker.rank, 1, 2)
            worker.count(8)
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            after[part][worker.rank] = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])

        run(train, workers=2, strategy=Strategy(consistency=LocalSteps(1), local=KeepOwn(part)), on=Simulator(network=Instant()), seed=5)
    agreed, own = after[0.0], after[1.0]
    assert torch.equal(agreed[0], agreed[1])
    torch.testing.assert_close((own[0] + own[1]) / 2, agreed[0])
    for rank in range(2):
        torch.testing.assert_close(after[0.5][rank], (agreed[0] + own[rank]) / 2)


def test_none_of_ones_own_is_what_was_agreed_on_bit_for_bit() -> None:
    none = Strategy(consistency=LocalSteps(3), local=KeepOwn(0.0))
    assert torch.equal(weights(ADAM, 3, none), weights(ADAM, 3, Strategy(consistency=LocalSteps(3))))


def test_workers_that_keep_their_own_end_with_the_same_weights() -> None:
    for strategy in (
        Strategy(consistency=LocalSteps(3), local=KeepOwn(0.5)),
        Strategy(consistency=LocalSteps(Every(4, 1)), topology=Server(2), local=KeepOwn(1.0), merge=Mean()),
    ):
        assert torch.equal(weights(MOMENTUM, 3, strategy, on=Processes()), weights(MOMENTUM, 3, strategy))


@pytest.mark.parametrize("make", [lambda: KeepOwn(-0.1), lambda: KeepOwn(1.1), lambda: Consensus(0.0)])
def test_settings_without_meaning_are_refused(make: Callable[[], LocalRule]) -> None:
    with pytest.raises(CompositionError, match="give"):
        make()


def test_what_begins_anew_is_not_averaged() -> None:
    assert not ResetMoments().traits.averages
    assert not any(remembering(ResetMoments(), MOMENTUM)[0]), "the run ended with an exchange"
