"""Several models, or one with several optimizers, each with steps of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kinds import fewest
from torch import Tensor, nn
from toy import SLOW, data, network

from polyrhythm import systems
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, PolyrhythmError, WorkloadError
from polyrhythm.hardware.faults import Crash
from polyrhythm.topology import AllToAll, Bucketed, Server

from .scenes import EVERY_SYSTEM, LOCKSTEP_SERVER, ONE_BACKWARD, flat, go, sgd


class Adversaries:
    """A generator and a discriminator, each with its optimizer; the discriminator steps twice for each step of the other."""

    def __init__(self, together: bool = False) -> None:
        self.together = together

    def __call__(self, worker: Any) -> None:
        both = nn.ModuleDict({"generator": nn.Linear(4, 10), "discriminator": nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))})
        g, d = both["generator"], both["discriminator"]
        optimizers = torch.optim.Adam(g.parameters(), lr=0.01), torch.optim.Adam(d.parameters(), lr=0.01)
        if self.together:
            for optimizer in optimizers:
                worker.attach(both, optimizer)
        else:
            worker.attach(g, optimizers[0], name="generator")
            worker.attach(d, optimizers[1], name="discriminator")
        for _ in range(2):
            for number, (x, _) in enumerate(worker.batches(data(), batch_size=8)):
                fake = g(torch.randn(len(x), 4))
                optimizers[1].zero_grad()
                (d(fake.detach()).mean() - d(x).mean()).backward()
                optimizers[1].step()
                if number % 2:
                    optimizers[0].zero_grad()
                    (-d(g(torch.randn(len(x), 4))).mean()).backward()
                    optimizers[0].step()
        worker.finish()
        worker.report(fake=d(g(torch.ones(1, 4))).item())


PARTIAL = ("keuper-asgd", "actors-decentralised", "ako", "hong-chandra", "dlion")
"""Systems whose replicas differ by what was not sent: more than by rounding, which is asserted."""


def takes_turns(system: str) -> bool:
    """Whether it lets these networks step by turns: not where workers pass steps over, which those of both are together."""
    return system not in ONE_BACKWARD and not systems.find(system).chooses


@pytest.mark.parametrize("system", fewest(system for system in EVERY_SYSTEM if not takes_turns(system)))
def test_a_system_that_does_not_let_networks_take_turns_says_so(system: str) -> None:
    reason = "gradient twice before optimizer.step" if system in ONE_BACKWARD else "every worker must take the same number of steps"
    with pytest.raises(PolyrhythmError, match=reason):
        go(Adversaries(), system, 3)


@pytest.mark.parametrize("system", fewest([system for system in EVERY_SYSTEM if takes_turns(system)]))
def test_every_system_trains_two_networks_to_the_same_weights_everywhere(system: str) -> None:
    ended: dict[int, list[Tensor]] = {}

    def train(worker: Any) -> None:
        models: list[nn.Module] = []
        attach = worker.attach
        worker.attach = lambda model, optimizer, **named: (models.append(model), attach(model, optimizer, **named))[1]
        Adversaries()(worker)
        ended[worker.rank] = [p.detach().clone() for model in models for p in model.parameters()]

    outcome = go(train, system, 3)
    assert {name.split(".")[0] for name in outcome.weights} == {"generator", "discriminator"}
    alike = [torch.allclose(mine, first, rtol=1e-5, atol=1e-6) for rank in ended for mine, first in zip(ended[rank], ended[0], strict=True)]
    assert all(alike) is (system not in PARTIAL)
    assert outcome.summary.samples == 192


@pytest.mark.parametrize("strategy", ["allreduce", "sparknet", "gossipgrad", LOCKSTEP_SERVER, Strategy(topology=AllToAll())], ids=str)
def test_one_model_with_two_optimizers_is_two_models(strategy: Any) -> None:
    apart, together = go(Adversaries(), strategy, 2), go(Adversaries(together=True), strategy, 2)
    torch.testing.assert_close(flat(together), flat(apart))


@pytest.mark.parametrize("system", ["allreduce", "sparknet", "gossipgrad", "diloco"])
def test_real_processes_give_the_same_weights(system: str) -> None:
    real = run(Adversaries(), workers=2, strategy=system, on=Processes(), seed=5)
    virtual = go(Adversaries(), system, 2)
    assert real.summary.weights_sha256 == virtual.summary.weights_sha256
    assert real.summary.bytes_sent == virtual.summary.bytes_sent


@pytest.mark.parametrize("system", ["ssp", "easgd", "strom", "downpour"])
def test_real_processes_end_well_where_order_matters(system: str) -> None:
    assert run(Adversaries(), workers=2, strategy=system, on=Processes(), seed=5).final["fake"] != 0.0


@pytest.mark.parametrize("moment", [0.0, 0.03, 0.1, 0.3])
@pytest.mark.parametrize("system", ["downpour", "easgd", "strom", "softsync"])
def test_the_others_go_on_with_both_when_a_worker_is_lost(system: str, moment: float) -> None:
    on = Simulator(network=SLOW, faults=(Crash("worker/2", at=moment),))
    assert run(Adversaries(), workers=4, strategy=system, on=on).summary.lost in (["worker/2"], [] if moment > 0.05 else None)


def test_workers_that_pass_steps_over_refuse_models_that_take_different_numbers() -> None:
    with pytest.raises(WorkloadError, match=r"have taken \d+ and \d+ steps"):
        go(Adversaries(), systems.find("fedavg", period=3), 2)


def test_each_counts_its_own_steps_and_samples_count_once() -> None:
    outcome = go(Adversaries(), "allreduce", 2)
    assert (outcome.summary.steps, outcome.summary.samples) == (12, 192)


def test_a_second_model_is_attached_before_the_first_step() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        worker.count(1)
        model(data()[0]).sum().backward()
        optimizer.step()
        other = network()
        worker.attach(other, sgd(other))

    with pytest.raises(WorkloadError, match="after the first step: attach every model and optimizer before training"):
        go(train)


def test_one_parameter_in_two_attached_optimizers_is_refused() -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        worker.attach(model, sgd(model))

    with pytest.raises(WorkloadError, match="4 parameters a second time: put each parameter into one optimizer"):
        go(train)


def test_the_optimizer_of_one_of_two_networks_that_is_left_out_is_missed() -> None:
    def train(worker: Any) -> None:
        both = nn.ModuleDict({"g": nn.Linear(10, 10), "d": nn.Linear(10, 3)})
        optimizer = sgd(both["d"])
        worker.attach(both, optimizer)
        worker.count(1)
        both["d"](data()[0]).sum().backward()
        optimizer.step()

    with pytest.raises(CompositionError, match=r"No attached optimizer has g.weight, g.bias, which would not be trained or exchanged"):
        go(train)


def test_buckets_are_apart_too() -> None:
    def train(worker: Any) -> None:
        models = [network(), network()]
        optimizers = [sgd(model) for model in models]
        for model, optimizer in zip(models, optimizers, strict=True):
            worker.attach(model, optimizer)
        for x, y in worker.batches(data(), batch_size=8):
            for model, optimizer in zip(models, optimizers, strict=True):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()

    torch.testing.assert_close(flat(go(train, Strategy(topology=Bucketed(nbytes=64)), 3)), flat(go(train, "allreduce", 3)))


def test_shards_serve_every_model() -> None:
    torch.testing.assert_close(
        flat(go(Adversaries(), Strategy(topology=Server(3)), 3)), flat(go(Adversaries(), "allreduce", 3)), rtol=1e-4, atol=1e-5
    )
