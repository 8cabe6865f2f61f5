"""Learning rates that follow the batch, and layers that step by their own sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from toy import SAMPLES, Toy, data, network, trained, weights

from polyrhythm import systems
from polyrhythm.consistency import LocalSteps
from polyrhythm.core import rng
from polyrhythm.core.kernel.events import Sent
from polyrhythm.core.kernel.message import DIMENSION_BYTES, HEADER_BYTES, TENSOR_HEADER_BYTES
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.groups import InGroups, OfSize
from polyrhythm.merge import LARC, LARS, LinearScaling, Mean, Nesterov, OuterOptimizer, StalenessScaled, Sum
from polyrhythm.topology import AllReduce, AllToAll, Bucketed, Deferred, Direct, Server, Summation, Tree

OPTIMIZERS: dict[str, Any] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=1e-2),
    "adam": lambda p: torch.optim.Adam(p, lr=0.003),
}
WORKERS, WARMUP = 4, 5
TOPOLOGIES = (AllReduce(), Server(2), AllToAll(), Bucketed(AllReduce(), 200), Summation(1), Deferred(Summation()))


def alone(make: Any, scale: Any, prepare: Any = lambda model, step: None) -> Tensor:
    """One process on the batches of all workers, its learning rate times scale(step), from 1; `prepare` changes gradients."""
    rng.seed_everything(5, "worker", 0)
    model, step = network(), 0
    optimizer = make(model.parameters())
    rate = optimizer.param_groups[0]["lr"]
    x, y = data()
    for epoch in range(4):
        order = rng.stream(5, "shuffle", epoch).permutation(SAMPLES)
        for start in range(0, SAMPLES, 8 * WORKERS):
            part = order[start : start + 8 * WORKERS]
            step += 1
            optimizer.zero_grad()
            F.cross_entropy(model(x[part]), y[part]).backward()
            prepare(model, step)
            optimizer.param_groups[0]["lr"] = rate * scale(step)
            optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_four_workers_warm_up_to_four_times_the_rate_as_one_process_with_a_schedule_does(optimizer: str) -> None:
    make = OPTIMIZERS[optimizer]
    expected = alone(make, lambda step: 1 + 3 * min(1, (step - 1) / WARMUP))
    for topology in TOPOLOGIES:
        found = weights(Toy(make, epochs=4), WORKERS, Strategy(topology=topology, merge=LinearScaling(WARMUP)))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, msg=repr(topology))


def test_the_scale_is_eta_first_and_k_eta_after_the_warm_up() -> None:
    assert [LinearScaling(4).scale(step, 8) for step in (1, 2, 3, 5, 6)] == [1, 2.75, 4.5, 8, 8]
    assert [LinearScaling().scale(step, 8) for step in (1, 9)] == [8, 8]
    assert LinearScaling(4, factor=2.0).scale(5, 8) == 2


def test_scaling_by_one_is_the_mean_and_without_warm_up_it_is_the_sum_bit_for_bit() -> None:
    toy = Toy(OPTIMIZERS["momentum"])
    for topology in TOPOLOGIES:
        by = {
            merge: weights(toy, WORKERS, Strategy(topology=topology, merge=merge))
            for merge in (Mean(), Sum(), LinearScaling(factor=1.0), LinearScaling())
        }
        assert torch.equal(by[LinearScaling(factor=1.0)], by[Mean()])
        assert torch.equal(by[LinearScaling()], by[Sum()])


def test_one_worker_scales_nothing() -> None:
    assert torch.equal(weights(Toy(), 1, "large-minibatch"), weights(Toy(), 1, "single"))


def test_a_hierarchy_scales_by_its_groups_or_by_a_factor_that_is_given() -> None:
    levels = Hierarchical(groups=OfSize(2), outer=Exchange(merge=LinearScaling(WARMUP, factor=4)))
    flat = Strategy(merge=LinearScaling(WARMUP))
    torch.testing.assert_close(weights(Toy(epochs=4), 4, Strategy(exchange=levels)), weights(Toy(epochs=4), 4, flat), rtol=1e-5, atol=1e-6)
    with pytest.raises(CompositionError, match="Inside groups gradients are averaged"):
        Hierarchical(inner=Exchange(merge=LinearScaling(WARMUP)))


def test_an_optimizer_that_takes_no_notice_of_its_rate_is_refused_though_the_first_step_is_not_scaled() -> None:
    with pytest.raises(CompositionError, match=r"LinearScaling\(warmup=30, factor=None\).* scales that rate"):
        weights(Toy(lambda p: torch.optim.Rprop(p)), 2, "large-minibatch")


def lars(trust: float, decay: float, clipped: bool) -> Any:
    """As NVIDIA's apex has it (apex/parallel/LARC.py), with the optimizer's own weight decay taken off it."""

    def prepare(model: Any, step: int) -> None:
        for parameter in model.parameters():
            grad, size = parameter.grad, parameter.detach().norm()
            if size != 0 and grad.norm() != 0:
                ratio = trust * size / (grad.norm() + size * decay)
                grad.add_(parameter.detach(), alpha=decay).mul_(min(ratio / 0.02, 1) if clipped else ratio)

    return prepare


@pytest.mark.parametrize("topology", [AllReduce(), Bucketed(AllReduce(), 200), AllToAll(), Deferred(Summation())], ids=repr)
@pytest.mark.parametrize(("merge", "clipped"), [(LARS(0.5, 1e-2), False), (LARC(0.02, 1e-2), True)], ids=["lars", "larc"])
def test_layers_step_by_their_trust_ratios(merge: Any, clipped: bool, topology: Any) -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.02, momentum=0.9)

    found = weights(Toy(make, epochs=4), WORKERS, Strategy(topology=topology, merge=merge))
    expected = alone(make, lambda step: 1, lars(merge.trust, merge.weight_decay, clipped))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(found, alone(make, lambda step: 1), rtol=1e-3)


def test_larc_whose_ratios_are_above_the_rate_is_the_mean_bit_for_bit() -> None:
    assert torch.equal(weights(Toy(), WORKERS, Strategy(merge=LARC(1e9))), weights(Toy(), WORKERS, Strategy()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearScaling(-1), "give 0 or more"),
        (lambda: LinearScaling(factor=0.0), "positive factor"),
        (lambda: LARS(0.0), "trust must be positive"),
        (lambda: LARC(weight_decay=-1.0), "trust must be positive"),
        (lambda: LARC(inner=OuterOptimizer(Nesterov())), "give it Mean"),
        (lambda: Strategy(merge=LARS(), topology=Server()), r"Server\(shards=1\) and LARS.* do not fit.*instead of LARS use"),
        (lambda: Strategy(merge=LARC(), consistency=LocalSteps(2)), "do not fit"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        make()


def test_larc_takes_one_learning_rate() -> None:
    def two(parameters: Any) -> torch.optim.Optimizer:
        first, *rest = parameters
        return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": rest, "lr": 0.2}])

    with pytest.raises(CompositionError, match=r"steps with one learning rate, and the optimizer's groups have 0\.1, 0\.2"):
        weights(Toy(two), 2, Strategy(merge=LARC()))
    assert weights(Toy(two), 2, Strategy(merge=LARS(inner=StalenessScaled()))).isfinite().all()


def climate(**settings: Any) -> Strategy:
    return systems.find("climate", **settings)


def test_climate_without_lag_whose_layers_trust_is_the_hierarchical_all_reduce() -> None:
    levels = Hierarchical(inner=Exchange(topology=AllReduce(Direct())), outer=Exchange(topology=AllReduce(Tree())), groups=InGroups(2))
    found = weights(Toy(epochs=3), 4, climate(groups=2, delay=0, trust=1e9))
    assert torch.equal(found, weights(Toy(epochs=3), 4, Strategy(exchange=levels)))


@pytest.mark.parametrize("stripes", [False, True])
def test_climate_gives_the_same_bits_in_real_processes(stripes: bool) -> None:
    strategy = climate(groups=2, stripes=stripes)
    virtual, real = (trained(Toy(), 4, strategy, on).summary for on in (Simulator(network=Instant()), Processes(cuda=False)))
    assert virtual.weights_sha256 == real.weights_sha256
    assert (virtual.bytes_sent, virtual.messages_sent) == (real.bytes_sent, real.messages_sent)


def between_hosts(strategy: Strategy, workers: int, local: int) -> int:
    """The bytes of gradients that workers on different hosts send each other, of `local` on each, without headers."""
    run = trained(Toy(), workers, strategy, Simulator(network=Instant(), record_sends=True))
    hosts = {worker(rank): rank // local for rank in range(workers)}
    sent = [
        event
        for event in run.outcome.events
        if isinstance(event, Sent) and "init" not in event.topic and hosts[event.actor] != hosts[event.to]
    ]
    return sum(event.nbytes - HEADER_BYTES - TENSOR_HEADER_BYTES - DIMENSION_BYTES - len(event.topic) for event in sent)


@pytest.mark.parametrize("local", [2, 4])
def test_hosts_send_each_other_what_a_flat_all_reduce_sends_divided_by_the_workers_of_a_host(local: int) -> None:
    flat = between_hosts(Strategy(topology=AllReduce(Direct())), 8, local)
    assert between_hosts(climate(groups=local), 8, local) * local == pytest.approx(flat, rel=0.02)
