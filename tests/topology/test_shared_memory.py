"""Weights in memory that all workers share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from endpoints import context_of, worker_end
from torch import nn
from toy import Toy, remaining, trained, weights

from polyrhythm import systems
from polyrhythm.core.kernel.effects import ShareMemory
from polyrhythm.core.kernel.events import Overwritten
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes import Processes
from polyrhythm.core.processes.runtime.memory import share
from polyrhythm.core.protocols.topology import InitialState
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Hierarchical, Strategy
from polyrhythm.core.strategy.components import Components
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import run
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError, DivergedError
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import Crash
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.local_rules import RandomComponent
from polyrhythm.merge import Sum
from polyrhythm.parameters import Named
from polyrhythm.topology import AllReduce, SharedMemory

HOGWILD = systems.find("hogwild")
STEPS = 4


class Scalar(nn.Module):
    """One weight, which begins at 0 and whose gradient is always -1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self) -> torch.Tensor:
        return -self.weight.sum()


def test_a_step_is_computed_on_the_weights_as_they_were_and_written_when_its_time_has_passed() -> None:
    seen: dict[int, list[float]] = {0: [], 1: []}

    def train(worker: Any) -> None:
        model, optimizer = worker.attach(model := Scalar(), torch.optim.SGD(model.parameters(), lr=1.0))
        for _ in range(STEPS):
            worker.count(1)
            optimizer.zero_grad()
            seen[worker.rank].append(model.weight.item())
            model().backward()
            optimizer.step()

    devices = Fleet((Profile("measured", (1.0,)),), (Mixed((1.0, 0.4)),))
    final = run(train, workers=2, strategy="hogwild", on=Simulator(network=Instant(), devices=devices))
    assert seen == {0: [0, 1, 2, 4], 1: [0, 3, 6, 7]}  # steps of 1 s, and of 2.5 s
    assert final.weights["weight"].item() == 2 * STEPS


def test_virtual_runs_are_replayed_bit_for_bit_and_count_no_lost_writes() -> None:
    first, again = (trained(Toy(), 16, "hogwild", Simulator(network="lan")) for _ in range(2))
    assert first.summary == again.summary
    assert first.summary.lost_writes is None
    assert first.outcome.events == again.outcome.events


@pytest.mark.parametrize("workers", [2, 4])
def test_real_workers_learn_together_and_every_write_of_a_row_is_counted(workers: int) -> None:
    toy = Toy(epochs=12)
    done = trained(toy, workers, "hogwild", Processes())
    rows = 12 + 12 + 3 + 3
    assert remaining(done) < 0.6, "the loss of guessing is ln 3, about 1.1"
    assert done.summary.row_writes == rows * workers * done.summary.steps
    assert done.summary.lost_writes is not None
    assert 0 <= done.summary.lost_writes <= done.summary.row_writes
    (event,) = (event for event in done.outcome.events if isinstance(event, Overwritten))
    assert (event.writes, event.lost) == (done.summary.row_writes, done.summary.lost_writes)


def test_one_real_worker_loses_nothing_and_is_the_virtual_one_bit_for_bit() -> None:
    real = trained(Toy(), 1, "hogwild", Processes())
    assert real.summary.lost_writes == 0
    assert real.summary.weights_sha256 == trained(Toy(), 1, "hogwild").summary.weights_sha256


def sparse(worker: Any) -> None:
    """Touches rows 2 * rank and 2 * rank + 1 of an embedding, and no others."""
    model = nn.Embedding(8, 3, sparse=True)
    nn.init.zeros_(model.weight)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
    rows = torch.tensor([2 * worker.rank, 2 * worker.rank + 1, 2 * worker.rank])
    for _ in range(STEPS):
        worker.count(1)
        optimizer.zero_grad()
        (-model(rows)).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("on", [Simulator(), Processes()], ids=["simulator", "processes"])
def test_sparse_gradients_write_their_rows_alone(on: Any) -> None:
    done = run(sparse, workers=3, strategy="hogwild", on=on)
    expected = torch.tensor([2.0, 1, 2, 1, 2, 1, 0, 0]) * STEPS
    assert torch.equal(done.weights["weight"], expected[:, None].expand(8, 3))
    if done.summary.on == "processes":
        assert (done.summary.row_writes, done.summary.lost_writes) == (2 * 3 * STEPS, 0), "no row is anybody else's"


@pytest.mark.parametrize("on", [Simulator(), Processes()], ids=["simulator", "processes"])
def test_a_single_component_moves_as_many_times_as_far_as_there_are(on: Any) -> None:
    """Each step has two rows of three, with gradients of -2 and -1: six components, of which one moves."""
    done = run(sparse, workers=3, strategy=systems.find("hogwild", single=True), on=on)
    moved = done.weights["weight"]
    assert (moved[-2:] == 0).all()
    for worker in range(3):
        twice, once = moved[2 * worker], moved[2 * worker + 1]
        assert (twice.sum() / 12 + once.sum() / 6).item() == pytest.approx(STEPS)
    if done.summary.on == "processes":
        assert done.summary.row_writes == 3 * STEPS, "a row a step"


@pytest.mark.parametrize("sparsely", [False, True])
def test_a_single_component_is_the_same_step_on_average(sparsely: bool) -> None:
    """Within five standard errors, of 4,000 draws among the three components that a gradient of five has."""
    gradient = torch.tensor([3.0, 0.0, -1.0, 0.0, 0.5])
    rule, context = RandomComponent(), context_of(1)
    if sparsely:
        model = nn.Embedding(5, 1, sparse=True)
        total = torch.zeros(5)
        for _ in range(4000):
            model.weight.grad = torch.sparse_coo_tensor(
                torch.tensor([[0, 2, 4]]), gradient[[0, 2, 4], None], (5, 1), check_invariants=False
            )
            components = Components([model.weight])
            components.put(rule.correct(components.flat, context, {}))
            assert model.weight.grad is not None
            assert model.weight.grad._nnz() == 1
            total += model.weight.grad.to_dense()[:, 0]
    else:
        total = torch.stack([rule.correct(gradient, context, {}) for _ in range(4000)]).sum(dim=0)
    assert torch.allclose(total / 4000, gradient, atol=5 * 3 * 2**0.5 / 4000**0.5)


def test_an_embedding_alone_may_lie_in_shared_memory() -> None:
    strategy = Strategy(exchange=Exchange(), selected=[(Named("0.*"), HOGWILD.exchange)])
    model = weights(Toy(), 3, strategy, Simulator(network="lan"))
    assert torch.equal(model, weights(Toy(), 3, strategy, Simulator(network="lan")))


def test_gradients_that_are_not_finite_are_refused_before_they_spoil_the_shared_weights() -> None:
    with pytest.raises(DivergedError, match=r"writes to shared weights of worker/. are not finite at step"):
        trained(Toy(lambda parameters: torch.optim.SGD(parameters, lr=1e38)), 2, "hogwild")


def test_the_others_go_on_without_a_lost_worker() -> None:
    done = trained(Toy(epochs=3), 3, "hogwild", Simulator(network="lan", faults=(Crash("worker/1", at=0.003),)))
    assert done.summary.lost == ["worker/1"]
    assert done.summary.steps == 12


def test_workers_at_several_sites_are_refused() -> None:
    with pytest.raises(CompositionError, match=r"SharedMemory\(\) is for workers of one host, and these are at 3 sites .*: take a network"):
        trained(Toy(), 3, "hogwild", Simulator(network="wan-3"))


def test_memory_of_another_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYRHYTHM_HOST_ID", "one")
    block = share(ShareMemory(64))
    assert share(ShareMemory(64, block.address)).content.numel() == 64
    monkeypatch.setenv("POLYRHYTHM_HOST_ID", "another")
    with pytest.raises(CompositionError, match=r"on several \(one and another\): start all of them on one host"):
        share(ShareMemory(64, block.address))


def test_memory_that_is_no_more_is_refused() -> None:
    block = share(ShareMemory(64))
    address = block.address
    del block
    with pytest.raises(CompositionError, match=r"shared memory .*Take a system"):
        share(ShareMemory(64, address))


def test_weights_on_a_device_are_refused() -> None:
    layout = Layout(("a",), ((4,),))
    state = ModelState(torch.zeros(4, device="meta"), layout, Sum(), context_of(2), None)
    channel = SharedMemory().channel(HOGWILD.agreement, worker_end(Port("worker/0", 0, lambda: 0.0), 2))
    with pytest.raises(CompositionError, match=r"are on meta, and SharedMemory.* let workers compute on the CPU"):
        channel.establish(InitialState(state, "")).send(None)


def test_groups_cannot_agree_through_it() -> None:
    with pytest.raises(CompositionError, match=r"with SharedMemory\(\) nothing is exchanged"):
        Hierarchical(inner=Exchange(topology=AllReduce()), outer=HOGWILD.exchange)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ({"topology": SharedMemory()}, r"BulkSynchronous\(\) .*do not fit"),
        ({"merge": systems.find("easgd").merge}, r"Elastic needs contributions .* over SharedMemory .*\. Instead of Elastic use Sum\."),
        (
            {"codec": systems.find("strom").codec},
            r"ErrorFeedback needs packets .*, and over SharedMemory workers communicate in shared memory",
        ),
        ({"topology": AllReduce()}, "AllReduce"),
    ],
)
def test_what_would_have_to_send_does_not_fit(pieces: dict[str, Any], message: str) -> None:
    own = {} if pieces.get("topology") == SharedMemory() else HOGWILD.exchange.pieces
    with pytest.raises(CompositionError, match=message):
        Strategy(**{**own, **pieces})
