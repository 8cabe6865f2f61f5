"""Gradients that leave during backward(): the same training, sooner; and what a training function may not do then."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import SLOW, Toy, data, network, trained, weights

from polyrhythm.codec import MEMBERS
from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.simulator.collectives import ClosedForm
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import DivergedError, PolyrhythmError, WorkloadError
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.faults import Crash
from polyrhythm.hardware.network import Network
from polyrhythm.tools.measuring.timing import simulate_timing
from polyrhythm.topology import ALGORITHMS, AllReduce, Bucketed

SMALL = Bucketed(AllReduce(), nbytes=32)
"""Three buckets of the toy network."""
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
}
each_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS)


@each_optimizer
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
def test_buckets_train_as_all_reduce_does_to_rounding(algorithm, workers: int, optimizer: str) -> None:  # type: ignore[no-untyped-def]
    toy = Toy(OPTIMIZERS[optimizer])
    bucketed, whole = (weights(toy, workers, Strategy(topology=t)) for t in (Bucketed(AllReduce(algorithm), 32), AllReduce(algorithm)))
    torch.testing.assert_close(bucketed, whole, rtol=1e-5, atol=1e-6)
    if workers <= 2:  # two numbers have one sum
        assert torch.equal(bucketed, whole)


OF_GRADIENTS = [
    codec for codec in MEMBERS if AllReduce().traits.provides >= codec.traits.requires and Payload.GRADIENT in codec.traits.payloads
]


@pytest.mark.parametrize("codec", OF_GRADIENTS, ids=repr)
def test_one_bucket_sends_what_is_sent_without_buckets(codec) -> None:  # type: ignore[no-untyped-def]
    one, none = (trained(Toy(epochs=1), 3, Strategy(topology=t, codec=codec), Simulator(network=SLOW)) for t in (Bucketed(), AllReduce()))
    assert one.outcome.summary == none.outcome.summary


@pytest.mark.parametrize("codec", OF_GRADIENTS[:8] + [pytest.param(codec, marks=pytest.mark.long) for codec in OF_GRADIENTS[8:]], ids=repr)
def test_every_codec_speaks_of_buckets_and_the_order_of_simultaneous_events_changes_no_bit(codec) -> None:  # type: ignore[no-untyped-def]
    strategy = Strategy(topology=SMALL, codec=codec)
    plain = weights(Toy(epochs=1), 3, strategy, Simulator(network=SLOW))
    assert torch.isfinite(plain).all()
    for ties in range(3):
        assert torch.equal(weights(Toy(epochs=1), 3, strategy, Simulator(network=Instant(), shuffle_ties=ties)), plain)


def test_clipping_clips_the_merged_gradient() -> None:
    toy = Toy(OPTIMIZERS["momentum"], clip_norm=0.2)
    torch.testing.assert_close(weights(toy, 4, Strategy(topology=SMALL)), weights(toy, 4, "allreduce"), rtol=1e-5, atol=1e-6)


def test_a_closed_form_charges_every_bucket() -> None:
    strategy = Strategy(topology=SMALL)
    closed, open_ = (trained(Toy(), 3, strategy, Simulator(network=SLOW, collectives=c)) for c in (ClosedForm(), Simulator().collectives))
    torch.testing.assert_close(closed.weights, open_.weights, rtol=1e-5, atol=1e-6)
    assert (closed.summary.bytes_sent, closed.summary.messages_sent) == (open_.summary.bytes_sent, open_.summary.messages_sent)


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


LAYERS, WIDTH, STEPS = 8, 64, 3
BUCKET = 4 * WIDTH * WIDTH
BANDWIDTH, LATENCY = 1e6, 1e-4


def stacked(worker: Any) -> None:
    """Three steps of four samples of which only the time matters; reports when it has started."""
    model = Stack(LAYERS, WIDTH)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
    worker.report(began=0.0)
    for _ in range(STEPS):
        worker.count(4)
        optimizer.zero_grad()
        model(torch.zeros(4, WIDTH)).sum().backward()
        optimizer.step()


def step_seconds(topology: Any, device: Any, workers: int = 2) -> float:
    on = Simulator(network=Network.uniform("even", BANDWIDTH, LATENCY), devices=device)
    outcome = run(stacked, workers=workers, strategy=Strategy(topology=topology), on=on).outcome
    began = max(event.time for event in outcome.events if isinstance(event, Reported))
    return (outcome.summary.virtual_seconds - began) / STEPS


def last(ready: Sequence[float], seconds: float) -> float:
    """When the last bucket has been exchanged: each starts when it is ready and the one before it has ended, and takes `seconds`."""
    ended = 0.0
    for at in ready:
        ended = max(ended, at) + seconds
    return ended


@pytest.mark.parametrize("exchanges", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("workers", [2, 3])
def test_a_measured_step_takes_what_its_last_bucket_takes(workers: int, exchanges: float) -> None:
    """Bucket k is there at S (1/3 + 2/3 (k + 1) / K)."""
    bucket = 2 * (workers - 1) * (LATENCY + BUCKET / workers / BANDWIDTH)
    step = LAYERS * bucket / exchanges * 3 / 2  # then the exchange lasts `exchanges` times as long as backward
    expected = last([step * (1 / 3 + 2 / 3 * (k + 1) / LAYERS) for k in range(LAYERS)], bucket)
    bucketed = step_seconds(Bucketed(nbytes=BUCKET), Profile("measured", (step,)), workers)
    assert bucketed == pytest.approx(expected, rel=0.02)
    assert step_seconds(AllReduce(), Profile("measured", (step,)), workers) == pytest.approx(step + LAYERS * bucket, rel=0.02)


def test_counted_operations_overlap_too_so_that_a_step_is_nearer_to_the_longer_than_to_the_sum() -> None:
    flops = 4 * 2 * WIDTH * WIDTH * (3 * LAYERS - 1)  # nobody needs the gradient of the input
    backward = 2 / 3 * flops
    exchange = LAYERS * 2 * (LATENCY + BUCKET / 2 / BANDWIDTH)
    device = Device("even", backward / exchange)  # the exchange takes as long as backward
    computing = flops / device.flops
    assert step_seconds(AllReduce(), device) == pytest.approx(computing + exchange, rel=0.03)
    ready = [8 + 2 * k for k in range(1, LAYERS)] + [3 * LAYERS - 1]  # in products of matrices
    expected = last([at * computing / (3 * LAYERS - 1) for at in ready], exchange / LAYERS)
    assert expected < computing + exchange / 4
    assert step_seconds(Bucketed(nbytes=BUCKET), device) == pytest.approx(expected, rel=0.01)


def test_a_timing_only_run_overlaps_as_the_run_does() -> None:
    on = Simulator(network=Network.uniform("even", BANDWIDTH, LATENCY), devices=Device("slow", 4e6))
    timed = {
        t: simulate_timing(stacked, workers=2, strategy=Strategy(topology=t), steps=8, on=on).summary
        for t in (AllReduce(), Bucketed(nbytes=BUCKET))
    }
    assert timed[Bucketed(nbytes=BUCKET)].virtual_seconds < 0.75 * timed[AllReduce()].virtual_seconds


# --- what a training function does


def training(
    body: Callable[[Any, nn.Module, torch.optim.Optimizer, torch.Tensor, torch.Tensor], None], build: Callable[[], nn.Module] = network
):  # type: ignore[no-untyped-def]
    """A training function whose step is `body`."""

    def train(worker: Any) -> None:
        model = build()
        model, optimizer = worker.attach(model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1))
        for x, y in worker.batches(data(), batch_size=8):
            body(worker, model, optimizer, x, y)

    return train


def go(train: Any, topology: Any = SMALL, workers: int = 2) -> torch.Tensor:
    outcome = run(train, workers=workers, strategy=Strategy(topology=topology), on=Simulator(network=Instant()), seed=5)
    return torch.cat([tensor.reshape(-1) for tensor in outcome.weights.values()])


def backward(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    F.cross_entropy(model(x), y).backward()


def clips(worker, model, optimizer, x, y) -> None:  # type: ignore[no-untyped-def]
    optimizer.zero_grad()
    backward(model, x, y)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def lossy(worker, model, optimizer, x, y) -> None:  # type: ignore[no-untyped-def]
    backward(model, x, y)
    optimizer.zero_grad()
    optimizer.step()


def accumulates(worker, model, optimizer, x, y) -> None:  # type: ignore[no-untyped-def]
    optimizer.zero_grad()
    backward(model, x, y)
    backward(model, x, y)
    optimizer.step()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (clips, r"changed between backward\(\) and optimizer.step\(\).*attach\(\.\.\., clip_norm=\.\.\.\)"),
        (lossy, r"changed between backward\(\) and optimizer.step\(\).*call zero_grad\(\) before backward\(\)"),
        (
            accumulates,
            r"a gradient twice before optimizer.step\(\).*sum the losses before one backward\(\), or use a topology .* such as AllReduce",
        ),
    ],
    ids=["clips", "lossy", "accumulates"],
)
def test_what_changes_gradients_that_have_left_is_refused_with_the_remedy(body, reason: str) -> None:  # type: ignore[no-untyped-def]
    if body is lossy:  # trains nothing under any topology
        with pytest.raises(WorkloadError, match=r"no attached parameter had one at any of \d+ steps.*zero_grad\(\) before backward\(\)"):
            go(training(body), topology=AllReduce())
    else:
        go(training(body), topology=AllReduce())
    with pytest.raises(WorkloadError, match=reason) as caught:
        go(training(body))
    assert str(caught.value).endswith(".")


def zeroes_in_place(worker, model, optimizer, x, y) -> None:  # type: ignore[no-untyped-def]
    optimizer.zero_grad(set_to_none=False)
    backward(model, x, y)
    optimizer.step()


def adds_to_the_last_one(worker, model, optimizer, x, y) -> None:  # type: ignore[no-untyped-def]
    backward(model, x, y)
    optimizer.step()


def two_backwards_for_two_halves(worker, model, optimizer, x, y) -> None:  # type: ignore[no-untyped-def]
    optimizer.zero_grad()
    model[0](x).sum().backward()
    model[2](torch.ones(8, 12)).square().sum().backward()
    optimizer.step()


def uses_a_part(worker, model, optimizer, x, y) -> None:  # type: ignore[no-untyped-def]
    optimizer.zero_grad()
    model[0](x).square().mean().backward()
    optimizer.step()


def no_backward(worker, model, optimizer, x, y) -> None:  # type: ignore[no-untyped-def]
    optimizer.zero_grad()
    optimizer.step()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("body", [zeroes_in_place, adds_to_the_last_one, two_backwards_for_two_halves, uses_a_part, no_backward])
def test_what_leaves_gradients_alone_trains_as_without_buckets(body, workers: int) -> None:  # type: ignore[no-untyped-def]
    assert torch.equal(go(training(body), workers=workers), go(training(body), AllReduce(), workers))


def half_frozen() -> nn.Module:
    model = network()
    model[0].weight.requires_grad_(False)
    return model


def test_frozen_parameters_are_in_no_bucket() -> None:
    assert torch.equal(go(training(zeroes_in_place, half_frozen)), go(training(zeroes_in_place, half_frozen), AllReduce()))


def test_a_backward_without_a_step_at_the_end_is_exchanged_and_thrown_away() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        x, y = data()
        worker.count(len(x))
        for _ in range(3):
            optimizer.zero_grad()
            backward(model, x, y)
            optimizer.step()
        backward(model, x, y)

    assert torch.equal(go(train), go(train, AllReduce()))


def test_after_the_end_of_the_run_gradients_are_nobodys_business() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        backward(model, *data())
        worker.count(1)
        optimizer.step()
        worker.finish()
        for _ in range(2):
            backward(model, *data())

    assert torch.isfinite(go(train)).all()


def test_gradients_that_are_not_finite_end_the_run_and_name_the_step() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for step in range(3):
            worker.count(1)
            optimizer.zero_grad()
            (model(data()[0]).sum() * (math.nan if step == 1 and worker.rank == 1 else 1.0)).backward()
            optimizer.step()

    with pytest.raises(DivergedError, match="gradients of worker/1 are not finite at step 2"):
        go(train)


def test_a_worker_that_crashes_in_backward_ends_the_run() -> None:
    on = Simulator(network=SLOW, devices=Profile("measured", (1.0,)), faults=(Crash("worker/1", at=0.6),))
    with pytest.raises(PolyrhythmError, match=r"worker/1 failed: it crashed at 0\.6 s"):
        trained(Toy(), 3, Strategy(topology=SMALL), on)


def test_the_same_seed_gives_the_same_record() -> None:
    runs = [trained(Toy(), 5, Strategy(topology=SMALL), Simulator(network="wan-3", seed=2)).outcome for _ in range(2)]
    assert runs[0].summary == runs[1].summary
    assert runs[0].events == runs[1].events
