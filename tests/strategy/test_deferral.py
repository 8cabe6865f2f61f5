"""Steps that wait for the forward pass that needs them: the same training, sooner; with any model, optimizer and loop."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from toy import SLOW, Toy, data, network, trained, weights

from polyrhythm.codec import MEMBERS
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import Evaluated, Reported
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, DivergedError, WorkloadError
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Adagrad, Mean, OuterOptimizer, Sum
from polyrhythm.parameters import Named
from polyrhythm.tools.measuring.timing import simulate_timing
from polyrhythm.topology import FAMILIES, AllReduce, Bucketed, Deferred, Direct, Gossip, Server, Summation

DEFERRED = Strategy(topology=Deferred(Summation(1, nbytes=64)))
GOSSIP = Strategy(consistency=LocalSteps(1), topology=Gossip(), merge=Mean())
LAYERWISE = Strategy(consistency=LocalSteps(1), topology=Deferred(Gossip()), merge=Mean())
PAIRS = {"sums": (DEFERRED, Strategy(topology=AllReduce(Direct()))), "gossip": (LAYERWISE, GOSSIP)}
"""A strategy whose exchanges are deferred, and one that trains alike in step()."""
REAL = Processes(cuda=False)
Step = Callable[[Any, nn.Module, torch.optim.Optimizer, torch.Tensor, torch.Tensor], None]

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "tensor rate": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_of_torch_gives_the_same_weights_deferred_or_not_bit_for_bit(optimizer: str, pair: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer])
    deferred, plain = PAIRS[pair]
    assert torch.equal(weights(toy, 3, deferred), weights(toy, 3, plain))


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("topology", [Deferred(), Deferred(Summation(1)), Deferred(Summation(1, nbytes=20))], ids=repr)
def test_any_number_of_workers_and_pieces_gives_the_weights_of_an_all_reduce(topology: Deferred, workers: int) -> None:
    toy = Toy(OPTIMIZERS["momentum"])
    assert torch.equal(weights(toy, workers, Strategy(topology=topology), Simulator(network=SLOW)), weights(toy, workers, "allreduce"))


@pytest.mark.parametrize("graph", FAMILIES, ids=repr)
@pytest.mark.parametrize("tau", [1, 3])
def test_gossip_of_single_tensors_gives_the_weights_of_gossip_on_every_graph(graph: Any, tau: int) -> None:
    toy = Toy(OPTIMIZERS["momentum"])
    plain, deferred = (
        Strategy(consistency=LocalSteps(tau), topology=each, merge=Mean()) for each in (Gossip(graph), Deferred(Gossip(graph)))
    )
    for workers in (1, 2, 5):
        assert torch.equal(weights(toy, workers, deferred, Simulator(network=SLOW)), weights(toy, workers, plain))


@pytest.mark.long
def test_both_runtimes_give_the_same_bits_and_bytes() -> None:
    strategy = Strategy(topology=Deferred(Summation(2, nbytes=64)))
    virtual, real = (trained(Toy(OPTIMIZERS["adam"]), 3, strategy, on) for on in (Simulator(network=Instant()), REAL))
    assert virtual.summary.weights_sha256 == real.summary.weights_sha256
    assert (virtual.summary.bytes_sent, virtual.summary.messages_sent) == (real.summary.bytes_sent, real.summary.messages_sent)


CODECS = [codec for codec in MEMBERS if AllReduce().traits.provides >= codec.traits.requires and Payload.GRADIENT in codec.traits.payloads]


@pytest.mark.parametrize("codec", CODECS[:8] + [pytest.param(codec, marks=pytest.mark.long) for codec in CODECS[8:]], ids=repr)
def test_every_codec_encodes_tensors_and_the_order_of_simultaneous_events_changes_no_bit(codec: Any) -> None:
    strategy = Strategy(topology=DEFERRED.topology, codec=codec)
    plain = weights(Toy(epochs=1), 3, strategy, Simulator(network=SLOW))
    assert torch.isfinite(plain).all()
    for ties in range(3):
        assert torch.equal(weights(Toy(epochs=1), 3, strategy, Simulator(network=Instant(), shuffle_ties=ties)), plain)


@pytest.mark.parametrize("merge", [Sum(), OuterOptimizer(Adagrad(0.1))], ids=repr)
def test_every_merge_gives_the_weights_of_an_all_reduce(merge: Any) -> None:
    deferred, plain = (weights(Toy(), 3, Strategy(topology=topology, merge=merge)) for topology in (DEFERRED.topology, AllReduce(Direct())))
    assert torch.equal(deferred, plain)


@pytest.mark.parametrize("pair", PAIRS)
def test_clipping_waits_for_the_whole_gradient(pair: str) -> None:
    toy = Toy(OPTIMIZERS["momentum"], clip_norm=0.2)
    deferred, plain = PAIRS[pair]
    assert torch.equal(weights(toy, 3, deferred), weights(toy, 3, plain))


def test_one_of_several_exchanges_may_be_deferred() -> None:
    toy = Toy(OPTIMIZERS["momentum"])
    for topology in (Server(2), Deferred()):
        strategy = Strategy(selected=[(Named("0.*"), Exchange(topology=topology))], topology=DEFERRED.topology)
        assert torch.equal(weights(toy, 2, strategy), weights(toy, 2, "allreduce"))


# --- what a training function does


def training(
    body: Step, build: Callable[[], nn.Module] = network, optimize: Callable[[Any], torch.optim.Optimizer] = OPTIMIZERS["momentum"]
) -> Callable[[Any], None]:
    """A training function whose step is `body`."""

    def train(worker: Any) -> None:
        model = build()
        model, optimizer = worker.attach(model, optimize([p for p in model.parameters() if p.requires_grad]))
        for x, y in worker.batches(data(), batch_size=8):
            body(worker, model, optimizer, x, y)

    return train


def both(train: Callable[[Any], None], workers: int = 3, on: Any = None, pair: str = "sums") -> None:
    """Training gives the same bits whether it is deferred or not."""
    found = [
        run(train, workers=workers, strategy=strategy, on=on or Simulator(network=SLOW), seed=5).summary.weights_sha256
        for strategy in PAIRS[pair]
    ]
    assert found[0] == found[1]


def usual(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def zeroes_in_place(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=False)
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def zeroes_afterwards(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=worker.clock % 2 == 0)


def zeroes_after_forward(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def adds_to_the_last_one(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def uses_a_part(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad()
    (model(x) if worker.clock % 2 else model[0](x)).square().mean().backward()  # type: ignore[index]
    optimizer.step()


def no_backward(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad()
    optimizer.step()


def evaluates(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    usual(worker, model, optimizer, x, y)
    model.eval()
    with torch.inference_mode() if worker.clock % 2 else torch.no_grad():
        worker.report(loss=F.cross_entropy(model(x), y))
        assert torch.is_inference_mode_enabled() == bool(worker.clock % 2)
        assert not torch.is_grad_enabled()
    model.train()


def under_autocast(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(x)
        assert out.dtype is torch.bfloat16
    F.cross_entropy(out.float(), y).backward()
    optimizer.step()


def recomputes(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad()
    F.cross_entropy(checkpoint(model, x, use_reentrant=False), y).backward()
    optimizer.step()


def offloads(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (worker.rank, t), lambda packed: _of(worker.rank, packed)):
        out = model(x)
    F.cross_entropy(out, y).backward()
    optimizer.step()


def _of(rank: int, packed: tuple[int, torch.Tensor]) -> torch.Tensor:
    assert packed[0] == rank, "packed by another worker's hooks"
    return packed[1]


BODIES = (
    *(usual, zeroes_in_place, zeroes_afterwards, zeroes_after_forward, adds_to_the_last_one, uses_a_part, no_backward),
    *(evaluates, under_autocast, recomputes, offloads),
)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("body", BODIES)
def test_whatever_a_training_function_does_the_weights_are_the_same_deferred_or_not(body: Step, pair: str) -> None:
    both(training(body), pair=pair)


@pytest.mark.parametrize("body", [evaluates, *(pytest.param(body, marks=pytest.mark.long) for body in (under_autocast, recomputes))])
def test_so_they_are_in_real_processes(body: Step) -> None:
    both(training(body), 2, REAL)


def test_learning_rates_and_momenta_are_those_at_the_step_whatever_a_scheduler_has_made_of_them_since() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=8)
        for x, y in worker.batches(data(), batch_size=8):
            if schedule.last_epoch < 7:
                usual(worker, model, optimizer, x, y)
                schedule.step()

    both(train)


# --- models


class Attends(nn.Module):
    """Uses the weight of a module that is never called (out_proj), and one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(10))
        self.attention = nn.MultiheadAttention(10, 2, batch_first=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x * self.scale)[:, None, :]
        return self.head(self.attention(x, x, x, need_weights=False)[0][:, 0])  # type: ignore[no-any-return]


class Tied(nn.Module):
    """Two layers own one weight, and another weight is used by the model alone."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(12, 10, bias=False)
        self.first = nn.Linear(12, 10)
        self.first.weight = self.last.weight
        self.out = nn.Linear(10, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.last(torch.tanh(self.first(F.pad(x, (0, 2)))).repeat(1, 2)[:, :12])
        return F.linear(hidden, self.out.weight, self.out.bias)


class Shared(nn.Module):
    """One layer that is called twice, under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(10, 10)
        self.b = self.a
        self.head = torch.nn.utils.parametrizations.weight_norm(nn.Linear(10, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))))  # type: ignore[no-any-return]


class Branches(nn.Module):
    """Uses one of two layers, by turns."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(10, 3) for _ in range(2))
        self.steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += self.training
        return self.layers[self.steps // 2 % 2](x)  # type: ignore[no-any-return]


def half_frozen() -> nn.Module:
    model = network()
    model[0].weight.requires_grad_(False)  # type: ignore[index]
    return model


@pytest.mark.parametrize("build", [Attends, Tied, Shared, Branches, half_frozen])
@pytest.mark.parametrize("body", [usual, evaluates, zeroes_afterwards])
@pytest.mark.parametrize("pair", PAIRS)
def test_parameters_are_there_when_a_model_uses_them(build: Callable[[], nn.Module], body: Step, pair: str) -> None:
    both(training(body, build), pair=pair)


def test_a_model_whose_forward_is_never_called_waits_at_the_step() -> None:
    def directly(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(F.linear(x, model.weight, model.bias), y).backward()  # type: ignore[arg-type]
        optimizer.step()

    both(training(directly, lambda: nn.Linear(10, 3)))


def test_several_optimizers_step_on_one_loss() -> None:
    def train(worker: Any) -> None:
        model, other = network(), nn.Linear(10, 10)
        model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=0.01), name="model")
        other, second = worker.attach(other, torch.optim.SGD(other.parameters(), lr=0.1), name="other")
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            second.zero_grad()
            F.cross_entropy(model(other(x)), y).backward()
            optimizer.step()
            second.step()

    both(train)


class Halves(nn.Module):
    """A model whose head is in double precision."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(10, 12), nn.Linear(12, 3).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.body(x)).double())  # type: ignore[no-any-return]


def test_parameters_of_several_types_are_deferred_each_in_its_part() -> None:
    both(training(usual, Halves))


# --- who reads weights between steps


def test_state_dicts_and_settled_replicas_have_the_last_step_in_them() -> None:
    def watching(how: str, kept: list[torch.Tensor]) -> Step:
        def body(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
            usual(worker, model, optimizer, x, y)
            if how == "settle":
                worker.attached[0].settle()
                state: Any = dict(model.named_parameters())
            else:
                momenta = optimizer.state_dict()["state"] if how == "optimizer" else {}
                state = {k: momenta[k]["momentum_buffer"] for k in sorted(momenta)} if momenta else model.state_dict()
            if worker.rank == 0:
                kept.append(torch.cat([tensor.detach().reshape(-1) for tensor in state.values()]).clone())

        return body

    for how, pair in itertools.product(("settle", "model", "optimizer"), PAIRS.values()):
        found: list[list[torch.Tensor]] = []
        for strategy in pair:
            found.append([])
            run(training(watching(how, found[-1])), workers=3, strategy=strategy, on=Simulator(network=SLOW), seed=5)
        assert torch.equal(torch.stack(found[0]), torch.stack(found[1])), how


@pytest.mark.parametrize("strategy", [DEFERRED, Strategy(topology=Summation(1)), LAYERWISE], ids=repr)
def test_a_run_goes_on_from_a_checkpoint(strategy: Strategy, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"workers": 3, "strategy": strategy, "on": Simulator(network=SLOW), "seed": 5}
    whole = run(training(usual), checkpoints=Checkpoints(tmp_path, every=1, keep=9), **settings).summary.weights_sha256
    for step in (1, 3):
        assert (
            run(training(usual), checkpoints=Checkpoints(resume=tmp_path / f"step-{step:08d}"), **settings).summary.weights_sha256 == whole
        )


def test_a_copy_of_the_model_is_a_model_without_a_run() -> None:
    def body(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
        usual(worker, model, optimizer, x, y)
        model.state_dict()
        assert torch.equal(copy.deepcopy(model)(x), model(x))

    both(training(body))


def test_evaluations_see_the_weights_after_some_step_and_never_a_mixture() -> None:
    """`where` says of which step the weights are: their first and their last elements, which are settled at different times."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
        worker.evaluate(lambda model: {"first": model[0].weight[0, 0], "last": model[2].bias[0]})
        for x, y in worker.batches(data(), batch_size=4):
            usual(worker, model, optimizer, x, y)

    def pairs(strategy: Any) -> set[tuple[float, float]]:
        on = Simulator(network=Network.uniform("slow", "1 Mbit/s", "20 ms"), devices=Device("slow", 1e5))
        events = run(train, workers=2, strategy=strategy, on=on, seed=5).outcome.events
        return {(event.metrics["first"], event.metrics["last"]) for event in events if isinstance(event, Evaluated)}

    deferred, plain = pairs(DEFERRED), pairs("allreduce")
    assert len(deferred) > 5
    assert len(deferred & plain) > 5
    firsts, lasts = dict(plain | deferred), {last: first for first, last in plain | deferred}
    assert len(firsts) == len(lasts) == len(plain | deferred)


# --- what is refused


def test_what_changes_gradients_that_have_left_is_refused() -> None:
    def clips(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    with pytest.raises(WorkloadError, match=r"changed between backward\(\) and optimizer.step\(\).*attach\(\.\.\., clip_norm=\.\.\.\)"):
        both(training(clips))


def test_a_parameter_that_is_used_where_nothing_waits_for_it_is_refused_and_not_used_as_it_was() -> None:
    def strays(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        out = F.linear(x, model.weight, model.bias) if worker.clock else model(x)  # type: ignore[arg-type]
        F.cross_entropy(out, y).backward()
        optimizer.step()

    with pytest.raises(WorkloadError, match=r"bias got a gradient, and its last step has not been taken|weight got a gradient"):
        both(training(strays, lambda: nn.Linear(10, 3)))


class Coupled(torch.optim.SGD):
    """An optimizer of somebody's own."""


def test_an_optimizer_that_may_couple_parameters_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"Coupled is none of torch.optim's.*or the same topology without Deferred\."):
        weights(Toy(lambda p: Coupled(p, lr=0.1)), 2, DEFERRED)
    weights(Toy(lambda p: Coupled(p, lr=0.1)), 2, Strategy(topology=Summation(1)))


def test_only_an_exchange_of_single_tensors_can_be_deferred() -> None:
    with pytest.raises(CompositionError, match=r"needs an exchange of single tensors in any order\. Give it Summation\(\.\.\.\)"):
        Deferred(AllReduce())  # type: ignore[arg-type]


def test_gradients_that_are_not_finite_end_the_run_and_name_the_step() -> None:
    def body(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        (model(x).sum() * (math.nan if worker.clock == 1 and worker.rank == 1 else 1.0)).backward()
        optimizer.step()

    with pytest.raises(DivergedError, match="gradients of worker/1 are not finite at step 2"):
        both(training(body))


def test_options_that_change_after_a_step_was_taken_in_backward_are_refused() -> None:
    def body(worker: Any, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.step()

    with pytest.raises(WorkloadError, match=r"options were changed between backward\(\) and optimizer.step\(\)"):
        both(training(body), pair="gossip")


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("on", [Simulator(network=Instant()), REAL], ids=["simulator", "processes"])
def test_a_backward_without_a_step_at_the_end_changes_nothing(on: Any, pair: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for x, y in worker.batches(data(), batch_size=8):
            usual(worker, model, optimizer, x, y)
        F.cross_entropy(model(x), y).backward()

    both(train, 2, on, pair)


# --- time


class Stack(nn.Module):
    """`layers` matrices of equal size, one after the other."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


LAYERS, WIDTH, STEPS = 8, 64, 4
MATRIX = 4 * WIDTH * WIDTH
BANDWIDTH = 1e6


def stacked(worker: Any) -> None:
    """Some steps of which only the time matters; reports when it has started."""
    model = Stack(LAYERS, WIDTH)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
    worker.report(began=0.0)
    for _ in range(STEPS):
        worker.count(4)
        optimizer.zero_grad()
        model(torch.zeros(4, WIDTH)).sum().backward()
        optimizer.step()


def step_seconds(topology: Any, slowness: float = 1.0, workers: int = 2) -> float:
    """With a device for which a step's computing takes as long as its exchange, or `slowness` times that."""
    flops = 4 * 2 * WIDTH * WIDTH * (3 * LAYERS - 1)
    device = Device("even", flops / (LAYERS * MATRIX / BANDWIDTH) / slowness)
    on = Simulator(network=Network.uniform("even", BANDWIDTH, 1e-4), devices=device)
    outcome = run(stacked, workers=workers, strategy=Strategy(topology=topology), on=on).outcome
    began = max(event.time for event in outcome.events if isinstance(event, Reported))
    return (outcome.summary.virtual_seconds - began) / STEPS


@pytest.mark.parametrize(("slowness", "least"), [(0.5, 0.95), (1.0, 0.9), (2.0, 1.0)])
def test_a_deferred_exchange_hides_behind_both_passes(slowness: float, least: float) -> None:
    """Behind the forward pass too, but for the first layer, whose gradient comes last and is needed first."""
    exchange = LAYERS * MATRIX / BANDWIDTH
    whole, buckets = step_seconds(Summation(), slowness), step_seconds(Bucketed(AllReduce(Direct()), MATRIX), slowness)
    deferred = step_seconds(Deferred(Summation(nbytes=MATRIX // 4)), slowness)
    assert whole == pytest.approx(exchange * (1 + slowness), rel=0.02)
    assert deferred < least * buckets
    assert deferred < max(1.0, slowness) * exchange * 1.3


def test_a_measured_step_hides_its_exchange_as_a_counted_one_does() -> None:
    exchange = LAYERS * MATRIX / BANDWIDTH
    on = Simulator(network=Network.uniform("even", BANDWIDTH, 1e-4), devices=Profile("measured", (exchange,)))
    found = []
    for topology in (Summation(), Bucketed(AllReduce(Direct()), MATRIX), Deferred(Summation(nbytes=MATRIX // 4))):
        outcome = run(stacked, workers=2, strategy=Strategy(topology=topology), on=on).outcome
        began = max(event.time for event in outcome.events if isinstance(event, Reported))
        found.append((outcome.summary.virtual_seconds - began) / STEPS)
    whole, buckets, deferred = found
    assert whole == pytest.approx(2 * exchange, rel=0.02)
    assert deferred < 0.9 * buckets
    assert deferred == pytest.approx(step_seconds(Deferred(Summation(nbytes=MATRIX // 4))), rel=0.05)


def test_spare_machines_make_a_deferred_step_shorter() -> None:
    """Of 3 workers, for each of which an all-reduce carries 4 / 3 of the model each way."""
    none, all_of_them = (step_seconds(Deferred(Summation(k, nbytes=MATRIX // 4)), 0.1, 3) for k in (0, 3))
    assert all_of_them < 0.9 * none


def test_a_timing_only_run_defers_as_the_run_does() -> None:
    on = Simulator(network=Network.uniform("even", BANDWIDTH, 1e-4), devices=Device("slow", 4e6))
    timed = {
        topology: simulate_timing(stacked, workers=2, strategy=Strategy(topology=topology), steps=8, on=on).summary
        for topology in (Summation(), Deferred(Summation(nbytes=MATRIX // 4)))
    }
    plain, deferred = timed.values()
    assert deferred.virtual_seconds < 0.7 * plain.virtual_seconds


def test_gossip_layer_by_layer_hides_behind_both_passes() -> None:
    exchange = LAYERS * MATRIX / BANDWIDTH
    seconds = []
    for topology in (Gossip(), Deferred(Gossip())):
        strategy = Strategy(consistency=LocalSteps(1), topology=topology, merge=Mean())
        on = Simulator(network=Network.uniform("even", BANDWIDTH, 1e-4), devices=Profile("measured", (exchange,)))
        outcome = run(stacked, workers=2, strategy=strategy, on=on).outcome
        began = max(event.time for event in outcome.events if isinstance(event, Reported))
        seconds.append((outcome.summary.virtual_seconds - began - exchange) / STEPS)  # the last mean climbs a tree
    whole, layerwise = seconds
    assert whole == pytest.approx(2 * exchange, rel=0.3)
    assert layerwise < 0.75 * whole
