"""Several exchanges in one strategy: each for some of the parameters."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import Toy, trained, weights

from polyrhythm.consistency import Bounded, LocalSteps
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Mean, Nesterov, OuterOptimizer, Sum
from polyrhythm.parameters import MEMBERS, Dimensions, Modules, Named, Optionally, Where
from polyrhythm.topology import AllReduce, Alone, Direct, Server, Tree

MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
BOTH = (Simulator(network=Instant()), Processes(cuda=False))
SERVED = Exchange(topology=Server(2), merge=Mean())


def mixed(*selected: Any, **default: Any) -> Strategy:
    return Strategy(selected=selected, **default)


@pytest.mark.parametrize("selection", MEMBERS, ids=repr)
@pytest.mark.parametrize("topology", [AllReduce(Tree()), Server(2)], ids=repr)
def test_exchanges_of_parts_give_the_bits_of_one_exchange_of_all(selection, topology) -> None:  # type: ignore[no-untyped-def]
    whole = weights(MOMENTUM, 2, Strategy())
    parts = weights(MOMENTUM, 2, mixed((selection, Exchange(topology=topology))))
    assert torch.equal(parts, whole)


def test_real_processes_give_the_same_bits_and_bytes() -> None:
    strategy = mixed((Dimensions(2), Exchange(topology=Server(2))), topology=AllReduce(Direct()))
    virtual, real = (trained(MOMENTUM, 3, strategy, on) for on in (Simulator(network=Instant()), Processes(cuda=False)))
    assert virtual.summary.weights_sha256 == real.summary.weights_sha256
    assert (virtual.summary.bytes_sent, virtual.summary.messages_sent) == (real.summary.bytes_sent, real.summary.messages_sent)


def test_each_exchange_has_a_consistency_and_a_merge_of_its_own() -> None:
    strategy = mixed(
        (Named("2.*"), Exchange(consistency=LocalSteps(3), merge=OuterOptimizer(Nesterov(0.5)))),
        (Named("0.bias"), Exchange(consistency=LocalSteps(1, Bounded(2)), topology=Server(), merge=Sum())),
    )
    outcome = trained(MOMENTUM, 4, strategy)
    assert outcome.final["loss"] < 1.1
    assert len([event for event in outcome.outcome.events if type(event).__name__ == "Started"]) == 5


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        ([Named("0.*"), Modules("Linear")], r"Named\('0.\*'\) and Modules\('Linear'\) both select 0.weight, .*narrower"),
        (
            [Named("o.*")],
            r"Named\('o.\*'\) selects no parameter of Sequential, which has 0.weight, 0.bias, 2.weight, 2.bias: check its spelling",
        ),
    ],
)
def test_what_overlaps_and_what_takes_nothing_is_refused(selected, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=message):
        trained(Toy(), 2, mixed(*((each, Exchange()) for each in selected)))


@pytest.mark.parametrize("on", [Simulator(), Processes(cuda=False)], ids=lambda on: on.kind)
def test_servers_for_which_nothing_is_left_end_with_the_run(on) -> None:  # type: ignore[no-untyped-def]
    everything = (Where(lambda candidate: True), Exchange())
    one, several = trained(MOMENTUM, 2, Strategy(), on).summary, trained(MOMENTUM, 2, mixed(everything, topology=Server(2)), on).summary
    assert several.weights_sha256 == one.weights_sha256
    assert several.messages_sent == one.messages_sent + 2, "one that dismisses each server"


@pytest.mark.parametrize("exchange", [Exchange(), SERVED], ids=["collective", "served"])
def test_a_selection_that_may_be_empty_leaves_everything_to_the_others(exchange: Exchange) -> None:
    summary = trained(MOMENTUM, 3, mixed((Optionally(Modules("Embedding")), exchange))).summary
    assert summary.weights_sha256 == trained(MOMENTUM, 3, Strategy()).summary.weights_sha256


def test_a_server_of_no_parameter_of_the_first_model_serves_the_second() -> None:
    def train(worker: Any) -> None:
        plain, rows = nn.Linear(4, 2), nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2))
        steps = [worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1)) for model in (plain, rows)]
        for given in (torch.ones(3, 4), torch.tensor([0, 1, 4])):
            (model, optimizer), *steps = steps
            model(given).sum().backward()
            worker.count(3)
            optimizer.step()

    selected = mixed((Optionally(Modules("Embedding")), SERVED))
    results = [run(train, workers=2, strategy=each, on=on, seed=1).summary for each, on in product((selected, Strategy()), BOTH)]
    assert len({result.weights_sha256 for result in results}) == 1


def test_exchanges_that_use_different_workers_are_refused() -> None:
    with pytest.raises(CompositionError, match="use different numbers of workers, 1 and 4 of 4"):
        trained(Toy(), 4, mixed((Named("0.*"), Exchange(topology=Alone()))))


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        (("0.*", Exchange()), r"selected contains '0.\*': give pairs"),
        ((("0.*", Exchange()),), r"selection='0.\*' is a name, not a piece: give the piece itself, such as Named"),
        (((Named("0.*"), Server()),), r"exchange=Server\(shards=1\) cannot be used as exchange"),
    ],
)
def test_what_is_no_pair_of_a_selection_and_an_exchange_is_refused(selected, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match=message):
        Strategy(selected=selected)


@pytest.mark.parametrize("empty", [Named, Modules], ids=lambda kind: kind.__name__)
def test_a_selection_of_nothing_is_refused(empty) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match="takes no parameter: give at least one"):
        empty()


class Halves(nn.Module):
    """A model whose head is in double precision."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(10, 12), nn.Linear(12, 3).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.body(x)).double())


@pytest.mark.parametrize("topology", [AllReduce(), Server(2)], ids=repr)
def test_parameters_of_several_types_are_exchanged_each_in_a_vector_of_its_own(topology) -> None:  # type: ignore[no-untyped-def]
    def train(worker: Any) -> None:
        model = Halves()
        model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=0.02))
        generator = torch.Generator().manual_seed(worker.rank)
        for _ in range(4):
            x = torch.randn(16, 10, generator=generator)
            optimizer.zero_grad()
            F.cross_entropy(model(x), x[:, :3].argmax(1)).backward()
            worker.count(16)
            optimizer.step()

    results = [run(train, workers=2, strategy=Strategy(topology=topology), on=on, seed=1) for on in (Simulator(), Processes(cuda=False))]
    assert results[0].weights["head.weight"].dtype is torch.float64
    assert results[0].summary.weights_sha256 == results[1].summary.weights_sha256
