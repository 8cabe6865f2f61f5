"""Gradients of embeddings exchanged by rows, sparse ones too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyrhythm.codec import Identity, TouchedRows
from polyrhythm.consistency import Asynchronous, Bounded, Intervals, LocalSteps
from polyrhythm.core.processes import Processes
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.parameters import Modules
from polyrhythm.topology import AllReduce, AllToAll, ChangedRows, Server

SYMBOLS, WIDTH, STEPS = 400, 8, 6
VIRTUAL, REAL = Simulator(network=Instant()), Processes(cuda=False)
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.5),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, weight_decay=1e-3),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
}


class Symbols(nn.Module):
    """Classes of bags of symbols."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.symbols, self.score = nn.Embedding(SYMBOLS, WIDTH, sparse=sparse), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.score(self.symbols(x).mean(1))


def trains(sparse: bool = True, optimizer: str = "sgd", make: Any = None, twice: bool = False) -> Any:
    def train(worker: Any) -> None:
        model = Symbols(sparse)
        model, stepping = worker.attach(model, (make or OPTIMIZERS[optimizer])(model.parameters()))
        draw = torch.Generator().manual_seed(worker.rank)
        for _ in range(STEPS):
            stepping.zero_grad()
            for _ in range(2 if twice else 1):
                x = torch.randint(0, SYMBOLS, (4, 5), generator=draw)
                loss = F.cross_entropy(model(x), x[:, 0] % 3)
                loss.backward()
            worker.count(4)
            stepping.step()
        worker.report(loss=loss)

    return train


def selected(topology: Any = None, codec: Any = None, **pieces: Any) -> Strategy:
    exchange = Exchange(topology=topology or AllReduce(), codec=codec or TouchedRows(), **pieces)
    return Strategy(selected=[(Modules("Embedding"), exchange)])


def went(train: Any, strategy: Strategy, workers: int = 3, on: Any = VIRTUAL) -> Run:
    return run(train, workers=workers, strategy=strategy, on=on, seed=2)


def test_the_payload_is_chosen_by_the_codec() -> None:
    assert Exchange(codec=TouchedRows()).payload is Payload.ROWS
    assert Exchange(consistency=LocalSteps(2), codec=TouchedRows()).payload is Payload.UPDATE


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("topology", [Server(2), Server(3, responses=ChangedRows()), AllToAll()], ids=repr)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_rows_of_sparse_gradients_give_the_bits_of_dense_ones(topology: Any, optimizer: str, workers: int) -> None:
    dense = went(trains(False, optimizer), selected(topology, Identity()), workers).summary
    rows, sparse = (went(trains(each, optimizer), selected(topology), workers).summary for each in (False, True))
    assert dense.weights_sha256 == rows.weights_sha256 == sparse.weights_sha256
    assert rows.bytes_sent == sparse.bytes_sent
    assert sparse.bytes_sent < dense.bytes_sent or workers == 1


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("topology", [AllReduce(), Server(2, responses=ChangedRows())], ids=repr)
def test_both_runtimes_give_the_same_bits_and_bytes(topology: Any, workers: int) -> None:
    virtual, real = (went(trains(), selected(topology), workers, on).summary for on in (VIRTUAL, REAL))
    assert virtual.weights_sha256 == real.weights_sha256
    assert (virtual.bytes_sent, virtual.messages_sent) == (real.bytes_sent, real.messages_sent)


def test_sixteen_virtual_workers() -> None:
    topology = Server(2, responses=ChangedRows())
    one, other = (went(trains(sparse=False), selected(topology, codec), 16).summary for codec in (TouchedRows(), Identity()))
    assert one.weights_sha256 == other.weights_sha256


def test_sparse_gradients_add_up_over_several_backward_passes() -> None:
    one, other = (went(trains(sparse, twice=True), selected()).summary.weights_sha256 for sparse in (True, False))
    assert one == other


def test_inside_groups_rows_are_exchanged_too() -> None:
    levels = Hierarchical(inner=Exchange(codec=TouchedRows()), outer=Exchange(codec=TouchedRows()), groups=2)
    one, other = (went(trains(sparse), Strategy(selected=[(Modules("Embedding"), levels)]), 4) for sparse in (True, False))
    assert one.summary.weights_sha256 == other.summary.weights_sha256


@pytest.mark.parametrize("rule", [Asynchronous(), Bounded(2), Intervals(2, 2), LocalSteps(2, Bounded(1))], ids=repr)
def test_out_of_step_workers_send_rows_too(rule: Any) -> None:
    assert went(trains(), selected(Server(2, responses=ChangedRows()), consistency=rule)).final["loss"] < 2


@pytest.mark.parametrize("strategy", [Strategy(), Strategy(topology=Server())], ids=["collective", "served"])
def test_elsewhere_a_sparse_gradient_is_refused_with_the_exchange_that_takes_it(strategy: Strategy) -> None:
    with pytest.raises(
        CompositionError, match=r"sparse=False, or select it for an exchange of rows, as in .*Exchange\(codec=TouchedRows\(\)\)"
    ):
        went(trains(), strategy)


def test_an_optimizer_of_sparse_gradients_alone_is_refused() -> None:
    with pytest.raises(CompositionError, match=r"SparseAdam takes sparse gradients only.*use SGD or Adagrad"):
        went(trains(make=lambda p: torch.optim.SparseAdam(list(p))), selected())


@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9), lambda p: torch.optim.SparseAdam(p, lr=0.1)])
def test_one_worker_alone_steps_on_sparse_gradients_as_a_plain_script_does(make: Any) -> None:
    x = torch.randint(0, SYMBOLS, (STEPS, 4), generator=torch.Generator().manual_seed(2))

    def model() -> nn.Module:
        torch.manual_seed(7)
        return nn.Embedding(SYMBOLS, WIDTH, sparse=True)

    def steps(symbols: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for batch in x:
            optimizer.zero_grad()
            symbols(batch).square().sum().backward()
            optimizer.step()

    def train(worker: Any) -> None:
        symbols = model()
        worker.count(1)
        steps(*worker.attach(symbols, make(symbols.parameters())))

    plain = model()
    steps(plain, make(plain.parameters()))
    for on in (VIRTUAL, REAL):
        assert torch.equal(run(train, workers=1, strategy="single", on=on).weights["weight"], plain.weight)
