"""Servers that step on each contribution, or on a few: what they become at the end of their settings, and who begins alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from test_collapse import UNEVEN
from torch import Tensor, nn
from toy import SLOW, Toy, network, trained, weights

from polyrhythm import systems
from polyrhythm.consistency import Asynchronous, Bounded, Intervals, LocalSteps, SoftSync, WarmStart
from polyrhythm.core.kernel.events import Merged
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Mean, Sum
from polyrhythm.topology import Blockwise, Server

RULES = [Asynchronous(), Intervals(), LocalSteps(2, Asynchronous())]


@dataclass
class Watched:
    """Least squares: what each worker's weights were after each of its steps. Only those of rank `trains` or less have a gradient."""

    steps: int = 12
    trains: int = 10
    seen: dict[int, list[Tensor]] = field(default_factory=dict)

    def __call__(self, worker: Any) -> None:
        torch.manual_seed(0)
        model, optimizer = worker.attach(model := nn.Linear(3, 1), torch.optim.SGD(model.parameters(), lr=0.05))
        draw = torch.Generator().manual_seed(worker.rank)
        self.seen[worker.rank] = [self._now(model)]
        for _ in range(self.steps):
            x = torch.randn(4, 3, generator=draw)
            optimizer.zero_grad()
            (model(x).squeeze(1) - x.sum(1)).square().mean().mul(worker.rank <= self.trains).backward()
            worker.count(4)
            optimizer.step()
            self.seen[worker.rank].append(self._now(model))

    @staticmethod
    def _now(model: nn.Module) -> Tensor:
        return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]).clone()


def served(rule: Consistency, shards: int = 1) -> Strategy:
    return Strategy(consistency=rule, topology=Server(shards), merge=Sum())


def started(rule: Consistency, steps: int, workers: int = 1) -> Strategy:
    """The rule after a warm start."""
    return served(LocalSteps(2, WarmStart(steps, workers)) if rule == RULES[2] else WarmStart(steps, workers, rule))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_no_warm_start_is_none(rule: Consistency) -> None:
    on = Simulator(network=SLOW, devices=UNEVEN)
    assert torch.equal(weights(Toy(), 3, started(rule, 0), on), weights(Toy(), 3, served(rule), on))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("first", [1, 2])
def test_a_warm_start_of_all_steps_is_training_by_the_first_workers_alone(rule: Consistency, first: int) -> None:
    on, alone = Simulator(network=SLOW), Watched(trains=first - 1)
    held = weights(Watched(), 3, started(rule, 100, first), on)  # type: ignore[arg-type]
    torch.testing.assert_close(held, weights(alone, 3, served(rule), on))  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_others_take_over_what_the_first_has_trained(rule: Consistency) -> None:
    held, steps = Watched(), 6
    trained(held, 3, started(rule, steps), Simulator(network=SLOW))  # type: ignore[arg-type]
    took = held.seen[1][steps]
    if rule != RULES[2]:  # there it has stepped by itself meanwhile
        assert all(torch.equal(now, held.seen[1][0]) for now in held.seen[1][:steps])
    assert min((took - now).abs().max() for now in held.seen[0][2:]) < 1e-6
    assert not torch.equal(took, held.seen[1][0])


def test_who_would_wait_for_those_who_have_not_started_is_refused() -> None:
    for rule in (Bounded(3), SoftSync(1, Bounded(0))):
        with pytest.raises(CompositionError, match="give a rule under"):
            WarmStart(5, then=rule)
    for make in (lambda: WarmStart(-1), lambda: WarmStart(1, 0)):
        with pytest.raises(CompositionError, match="give 0 steps"):
            make()


def test_shards_of_downpour_are_at_different_versions_and_get_every_push_in_the_end() -> None:
    events = trained(Toy(), 3, systems.find("downpour", servers=3), Simulator(network=SLOW, devices=UNEVEN)).outcome.events
    versions: dict[str, int] = {}
    apart = 0
    for event in events:
        if isinstance(event, Merged):
            versions[event.actor] = event.version
            apart = max(apart, max(versions.values()) - min(versions.values()))
    assert len(versions) == 3
    assert len(set(versions.values())) == 1
    assert apart >= 1


def test_paine_with_an_exchange_at_each_step_and_no_warm_start_is_a_server_that_adds_updates() -> None:
    on = Simulator(network=SLOW, devices=UNEVEN)
    paine = systems.find("paine", period=1, warm_start=0)
    assert torch.equal(weights(Toy(), 3, paine, on), weights(Toy(), 3, "byteps-async", on))
    assert sum(p.numel() for p in network().parameters()) == weights(Toy(), 3, paine, on).numel()


EQUAL = Simulator(network=SLOW)


@pytest.mark.parametrize("system", ["consgd", "dynsgd"])
def test_without_slack_local_updates_are_averaged_to_the_bit(system: str) -> None:
    averaged = Strategy(consistency=LocalSteps(4), topology=Server(), merge=Mean())
    found = systems.find(system, period=4, slack=0)
    for on in (EQUAL, Simulator(network=SLOW, devices=UNEVEN)):
        assert torch.equal(weights(Toy(epochs=4), 3, found, on), weights(Toy(epochs=4), 3, averaged, on))


def test_consgd_with_one_step_a_clock_is_ssp() -> None:
    on = Simulator(network=SLOW, devices=UNEVEN)
    found = systems.find("consgd", period=1, slack=3)
    assert torch.equal(weights(Toy(epochs=4), 3, found, on), weights(Toy(epochs=4), 3, "ssp", on))


def test_a_server_that_takes_one_gradient_at_a_time_is_zhangs() -> None:
    on = Simulator(network=SLOW, devices=UNEVEN)
    assert torch.equal(weights(Toy(), 3, systems.find("asysg-con", buffer=1), on), weights(Toy(), 3, "zhang-asgd", on))
    events = trained(Toy(), 3, systems.find("asysg-con", buffer=3), on).outcome.events
    assert {len(event.staleness) for event in events if isinstance(event, Merged)} == {3}


def test_one_block_is_a_server_that_adds_what_workers_did() -> None:
    on = Simulator(network=SLOW, devices=UNEVEN)
    torch.testing.assert_close(weights(Toy(), 3, systems.find("asysg-incon", parts=1), on), weights(Toy(), 3, "byteps-async", on))


@dataclass
class Constant:
    """The gradient of every weight is 1: after any number of whole steps all weights are equal."""

    seen: list[Tensor] = field(default_factory=list)

    def __call__(self, worker: Any) -> None:
        model = nn.Linear(8, 8, bias=False)
        nn.init.zeros_(model.weight)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        for _ in range(8):
            optimizer.zero_grad()
            model.weight.sum().backward()
            worker.count(1)
            optimizer.step()
            self.seen.append(model.weight.detach().clone())


@pytest.mark.parametrize("rule", [Asynchronous(), LocalSteps(1, Asynchronous())], ids=repr)
def test_weights_that_are_read_block_by_block_were_the_weights_at_no_moment(rule: Consistency) -> None:
    on = Simulator(network=SLOW, devices=UNEVEN)
    snapshots, torn = Constant(), Constant()
    trained(snapshots, 3, Strategy(consistency=rule, topology=Server(), merge=Sum()), on)  # type: ignore[arg-type]
    assert all(len(read.unique()) == 1 for read in snapshots.seen)
    found = trained(torn, 3, Strategy(consistency=rule, topology=Blockwise(4), merge=Sum()), on)  # type: ignore[arg-type]
    assert any(len(read.unique()) > 1 for read in torn.seen)
    assert found.weights["weight"].unique().tolist() == [-24.0], "and no step is lost"


def test_a_step_on_one_block_writes_to_its_server_alone() -> None:
    on = Simulator(network=SLOW, devices=UNEVEN)
    found = Constant()
    run = trained(found, 3, systems.find("asysg-incon", parts=4), on)  # type: ignore[arg-type]
    assert run.weights["weight"].sum().item() == -24 * 16
    versions = {event.actor: event.version for event in run.outcome.events if isinstance(event, Merged)}
    assert sum(versions.values()) == 24
