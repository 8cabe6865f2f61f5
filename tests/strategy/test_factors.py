"""Gradients of linear layers exchanged as what multiplies out to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_collapse import OPTIMIZERS, plain
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from toy import Toy, trained, weights

from polyrhythm.codec import SufficientFactors
from polyrhythm.consistency import Asynchronous, Bounded, Intervals, SoftSync
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.parameters import Modules
from polyrhythm.topology import AllReduce, AllToAll, Server

FACTORS = Exchange(codec=SufficientFactors())
ALL = Strategy(exchange=FACTORS)
CENTRAL = Strategy(topology=Server(3), codec=SufficientFactors())
BOTH = (Simulator(network=Instant()), Processes(cuda=False))
each_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS)


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-6)


def test_the_payload_is_chosen_by_the_codec() -> None:
    assert FACTORS.payload is Payload.FACTORS
    assert Exchange(consistency=SoftSync(1, Bounded(1)), topology=Server(), codec=SufficientFactors()).payload is Payload.FACTORS


@each_optimizer
@pytest.mark.parametrize("strategy", [ALL, CENTRAL], ids=["all-gather", "server"])
def test_factors_are_dense_gradients_to_rounding(strategy: Strategy, optimizer: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer], epochs=7)
    dense = weights(toy, 4, Strategy(topology=strategy.topology))
    torch.testing.assert_close(weights(toy, 4, strategy), dense, rtol=1e-5, atol=1e-5)


@each_optimizer
def test_one_worker_is_the_plain_loop(optimizer: str) -> None:
    for strategy in (ALL, CENTRAL):
        close(weights(Toy(OPTIMIZERS[optimizer]), 1, strategy), plain(Toy(OPTIMIZERS[optimizer])))


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("strategy", [ALL, CENTRAL], ids=["all-gather", "server"])
def test_both_runtimes_give_the_same_bits_and_bytes(strategy: Strategy, workers: int) -> None:
    virtual, real = (trained(Toy(batch_size=5), workers, strategy, on).summary for on in BOTH)  # the last batches are smaller
    assert virtual.weights_sha256 == real.weights_sha256
    assert (virtual.bytes_sent, virtual.messages_sent) == (real.bytes_sent, real.messages_sent)


def test_sixteen_virtual_workers() -> None:
    close(weights(Toy(), 16, ALL), weights(Toy(), 16, Strategy()))


@pytest.mark.parametrize("topology", [Server(2), AllToAll()], ids=repr)
@pytest.mark.parametrize("rule", [Asynchronous(), Bounded(2)], ids=repr)
def test_workers_out_of_step_learn_from_factors_too(topology: Any, rule: Any) -> None:
    assert trained(Toy(epochs=12), 3, Strategy(consistency=rule, topology=topology, codec=SufficientFactors())).final["loss"] < 0.7


def test_the_merged_gradient_can_be_clipped() -> None:
    toy = Toy(clip_norm=0.2)
    close(weights(toy, 4, ALL), weights(toy, 4, Strategy()))


Loss = Callable[[nn.Module, Tensor], Tensor]


class Net(nn.Module):
    """Two layers, the first of which may be used twice or checkpointed, and one that is not always used."""

    def __init__(self, twice: bool = False, reentrant: bool | None = None, everything: bool = True) -> None:
        super().__init__()
        self.twice, self.reentrant, self.everything = twice, reentrant, everything
        self.first, self.spare, self.last = nn.Linear(6, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self._once(x)
        y = self._once(y) if self.twice else y
        return self.last(y + self.spare(y) if self.everything else y)

    def _once(self, x: Tensor) -> Tensor:
        if self.reentrant is None:
            return torch.relu(self.first(x))
        return checkpoint(lambda given: torch.relu(self.first(input=given)), x, use_reentrant=self.reentrant)


def trains(make: Callable[[], nn.Module] = Net, set_to_none: bool = True, backwards: int = 1, change: Any = None, wide: int = 0) -> Any:
    """A training function of four steps; `change` is called between backward() and step(), `wide` adds a dimension to the input."""

    def train(worker: Any) -> None:
        model = make()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        draw = torch.Generator().manual_seed(worker.rank)
        for _ in range(4):
            optimizer.zero_grad(set_to_none=set_to_none)
            for _ in range(backwards):
                x = torch.randn(4 + worker.rank, *([wide] if wide else []), 6, generator=draw).to(next(model.parameters()).dtype)
                F.cross_entropy(model(x.requires_grad_()).reshape(-1, 3), x.detach().reshape(-1, 6)[:, :3].argmax(1)).backward()
            if change is not None:
                change(model)
            worker.count(4)
            optimizer.step()

    return train


def flat(train: Any, strategy: Strategy, workers: int = 2) -> Tensor:
    found = run(train, workers=workers, strategy=strategy, on=Simulator(network=Instant()), seed=3).weights
    return torch.cat([tensor.reshape(-1) for tensor in found.values()])


SCENES = {
    "once": trains(),
    "on zeros": trains(set_to_none=False),
    "accumulated": trains(backwards=3),
    "accumulated on zeros": trains(backwards=2, set_to_none=False),
    "sequences": trains(wide=5),
    "twice": trains(lambda: Net(twice=True)),
    "twice and accumulated": trains(lambda: Net(twice=True), backwards=2, wide=3),
    "checkpointed, reentrant": trains(lambda: Net(reentrant=True)),
    "checkpointed, twice and accumulated": trains(lambda: Net(reentrant=False, twice=True), backwards=2),
    "unused": trains(lambda: Net(everything=False)),
    "unused on zeros": trains(lambda: Net(everything=False), set_to_none=False),
    "double": trains(lambda: Net().double()),
    "a layer alone": trains(lambda: nn.Linear(6, 3)),
}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("strategy", [ALL, CENTRAL], ids=["all-gather", "server"])
def test_whatever_goes_through_a_layer_before_a_step_is_in_its_factors(scene: str, strategy: Strategy) -> None:
    close(flat(SCENES[scene], strategy), flat(SCENES[scene], Strategy()))


def test_autocast_is_multiplied_out_in_single_precision() -> None:
    def train(worker: Any) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            trains()(worker)

    torch.testing.assert_close(flat(train, ALL), flat(train, Strategy()), rtol=0.02, atol=0.02)


class Tied(nn.Module):
    """One weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x)))


class Functional(nn.Module):
    """A layer whose weight is given to a function."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.first.weight, self.first.bias)


def clip(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)


@pytest.mark.parametrize("train", [trains(Tied), trains(Functional), trains(change=clip)], ids=["tied", "functional", "clipped"])
def test_gradients_that_factors_do_not_make_up_are_refused_at_the_first_step(train: Any) -> None:
    with pytest.raises(WorkloadError, match=r"The gradient of (first\.)\w+ is not the product of what went through first"):
        flat(train, ALL)


def test_gradients_that_are_kept_from_an_earlier_step_are_refused() -> None:
    def train(worker: Any) -> None:
        model, optimizer = worker.attach(net := Net(), torch.optim.SGD(net.parameters(), lr=0.1))
        for _ in range(2):
            model(torch.ones(2, 6)).sum().backward()
            worker.count(2)
            optimizer.step()

    with pytest.raises(WorkloadError, match=r"kept since an earlier step: .*call zero_grad\(\)"):
        flat(train, ALL)


def test_parameters_of_no_linear_layer_are_refused() -> None:
    with pytest.raises(CompositionError, match=r"1\.weight, 1\.bias belong to none: use it for selected parameters"):
        flat(trains(lambda: nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3))), ALL)


def test_what_is_not_linear_goes_another_way() -> None:
    train = trains(lambda: nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3)))
    strategy = Strategy(selected=[(Modules("Linear"), FACTORS)], topology=Server())
    close(flat(train, strategy, 3), flat(train, Strategy(), 3))


def test_clipping_before_servers_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"clip_norm=0.2 clips a worker's gradient before servers get it"):
        trained(Toy(clip_norm=0.2), 2, CENTRAL)


@pytest.mark.parametrize("levels", [{"inner": FACTORS}, {"outer": FACTORS}], ids=["inner", "outer"])
def test_groups_exchange_no_factors(levels: dict[str, Exchange]) -> None:
    with pytest.raises(CompositionError, match="Factors multiply out to the gradient of one worker"):
        Hierarchical(groups=2, **levels)


def test_what_accrues_over_steps_has_no_factors() -> None:
    with pytest.raises(CompositionError, match=r"Intervals.* and SufficientFactors.* do not fit"):
        Strategy(consistency=Intervals(push=2), topology=Server(), codec=SufficientFactors())


def test_no_hook_is_left_on_layers_after_the_run() -> None:
    model = Net()
    run(trains(lambda: model), workers=1, strategy=ALL, on=Simulator(network=Instant()))
    assert not any(module._forward_hooks for module in model.modules())
    assert AllReduce() == FACTORS.topology
