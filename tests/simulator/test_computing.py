"""What computing costs: operations counted on the real forward and backward, or measured steps; and what waits are recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyrhythm.core.kernel.events import AnyEvent, Computed, Waited
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.counting import OperationCounter
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import WorkloadError
from polyrhythm.hardware.devices import Device, Profile
from polyrhythm.hardware.fleet import Fleet, Jitter

from .scenes import INSTANT, job, note, play, silent

SPEED = Device("one", 1000.0)
"""A thousand operations per second."""


async def nothing() -> None:
    """A aggregation without a word."""


def counted(work: Callable[[], object]) -> int:
    counter = OperationCounter()
    counter.start()
    work()
    return counter.stop()


def total(module: nn.Module, *inputs: Tensor) -> Callable[[], None]:
    return lambda: module(*inputs).sum().backward()


def test_a_linear_step_costs_its_three_products() -> None:
    layer, x = nn.Linear(5, 7), torch.ones(3, 5, requires_grad=True)
    assert counted(lambda: layer(x)) == 2 * 3 * 5 * 7
    assert counted(total(layer, x)) == 3 * 2 * 3 * 5 * 7
    assert counted(total(layer, x.detach())) == 2 * 2 * 3 * 5 * 7, "the first layer needs no gradient of its input"


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_step_costs_its_closed_form(groups: int) -> None:
    layer, x = nn.Conv2d(4, 6, kernel_size=3, padding=1, groups=groups), torch.ones(2, 4, 8, 8, requires_grad=True)
    forward = 2 * (2 * 6 * 8 * 8) * (4 // groups) * 9
    assert counted(lambda: layer(x)) == forward
    assert counted(total(layer, x)) == 3 * forward
    assert counted(total(layer, x.detach())) == 2 * forward


def test_a_transposed_convolution_costs_its_closed_form() -> None:
    layer, x = nn.ConvTranspose2d(4, 6, kernel_size=3), torch.ones(2, 4, 8, 8, requires_grad=True)
    forward = 2 * (2 * 4 * 8 * 8) * 6 * 9
    assert counted(lambda: layer(x)) == forward
    assert counted(total(layer, x)) == 3 * forward


def test_attention_costs_its_products_forward_and_backward() -> None:
    query, key, value = (torch.ones(2, 4, 16, 8, requires_grad=True) for _ in range(3))
    product = 2 * (2 * 4) * 16 * 16 * 8
    assert counted(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True)) == 2 * product
    assert counted(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()) == 7 * product


def test_products_of_batches_and_vectors_are_counted() -> None:
    a, b, vector = torch.ones(3, 4, 5), torch.ones(3, 5, 6), torch.ones(5)
    assert counted(lambda: a @ b) == 2 * 3 * 4 * 5 * 6
    assert counted(lambda: a[0] @ vector) == 2 * 4 * 5
    assert counted(lambda: vector @ vector) == 2 * 5
    assert counted(lambda: torch.baddbmm(torch.ones(3, 4, 6), a, b)) == 2 * 3 * 4 * 5 * 6
    assert counted(lambda: torch.einsum("bik,bkj->bij", a, b)) == 2 * 3 * 4 * 5 * 6


def test_evaluation_without_gradients_costs_as_much_as_the_forward() -> None:
    model, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 10)), torch.ones(4, 1, 8, 8)
    forward = counted(lambda: model(x))

    def evaluate(mode: Callable[[], torch.no_grad | torch.inference_mode]) -> int:
        def work() -> None:
            with mode():
                model(x)

        return counted(work)

    assert forward == 2 * 4 * 2 * 36 * 9 + 2 * 4 * 72 * 10
    assert evaluate(torch.no_grad) == evaluate(torch.inference_mode) == forward


def test_a_recurrent_layer_is_counted() -> None:
    layer, x = nn.LSTM(5, 7), torch.ones(9, 3, 5)
    forward = 2 * 9 * 3 * 4 * 7 * (5 + 7)
    assert counted(lambda: layer(x)) == forward
    assert counted(lambda: layer(x)[0].sum().backward()) == 3 * forward


def test_counting_changes_no_bit_of_a_step() -> None:
    def step() -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
        optimizer = torch.optim.Adam(model.parameters())
        F.cross_entropy(model(torch.randn(8, 1, 8, 8)), torch.arange(8)).backward()
        optimizer.step()
        return [value.clone() for value in model.state_dict().values()]

    plain, counter = step(), OperationCounter()
    counter.start()
    observed = step()
    counter.stop()
    assert all(torch.equal(a, b) for a, b in zip(plain, observed, strict=True))


def train(context: WorkerContext) -> None:
    layer, x = nn.Linear(5, 10), torch.ones(2, 5)
    for _ in range(3):
        layer(x).sum().backward()
        context.charge(2)
        context.perform(nothing())


def times(events: list[AnyEvent], kind: type[Computed] | type[Waited]) -> list[tuple[float, float]]:
    return [(event.time, event.seconds) for event in events if isinstance(event, Computed | Waited) and isinstance(event, kind)]


def test_counted_operations_pass_as_virtual_time_before_the_conversation() -> None:
    ending, events = play(job(train), Simulator(network=INSTANT, devices=SPEED))
    step = 2 * 2 * (2 * 5 * 10) / 1000
    assert times(events, Computed) == [(pytest.approx(step * n), pytest.approx(step)) for n in (1, 2, 3)]
    assert ending.seconds == pytest.approx(3 * step)


def test_a_measured_profile_charges_steps_and_counts_nothing() -> None:
    ending, events = play(job(train), Simulator(network=INSTANT, devices=Profile("measured", (0.5, 1.5))))
    assert times(events, Computed) == [(0.5, 0.5), (2.0, 1.5), (2.5, 0.5)]
    assert ending.seconds == 2.5


def test_a_program_that_computes_nothing_pays_no_overhead() -> None:
    def program(context: WorkerContext) -> None:
        for _ in range(5):
            context.perform(nothing())

    ending, events = play(job(program), Simulator(network=INSTANT, devices=Device("slow", 1.0, overhead_seconds=10.0)))
    assert ending.seconds == 0.0
    assert not times(events, Computed)


def test_what_is_computed_after_the_last_conversation_is_charged_too() -> None:
    ending, _ = play(job(lambda context: counted_product()), Simulator(network=INSTANT, devices=SPEED))
    assert ending.seconds == pytest.approx(0.128)


def counted_product() -> None:
    _ = torch.ones(4, 4) @ torch.ones(4, 4)


def test_jitter_comes_from_the_seed_and_differs_between_workers() -> None:
    def ends(seed: int) -> list[float]:
        fleet = Fleet((SPEED,), (Jitter(0.3),))
        _, events = play(job(train, train), Simulator(network=INSTANT, devices=fleet, seed=seed))
        return [time for time, _ in times(events, Computed)]

    assert ends(1) == ends(1)
    assert ends(1) != ends(2)
    assert len(set(ends(1))) == 6


def test_work_of_an_actor_takes_its_device_one_after_the_other() -> None:
    done: list[float] = []

    async def serve(port: Port) -> None:
        async def merge() -> None:
            await port.compute(1000.0)
            done.append(port.now())

        await port.spawn("first", merge())
        await port.spawn("second", merge())
        await port.receive("never")

    def program(context: WorkerContext) -> None:
        async def wait() -> None:
            await context.port.compute(5000.0)
            await context.port.compute(0.0)

        context.perform(wait())

    ending, _ = play(job(program, servers=(serve,)), Simulator(network=INSTANT, devices=Fleet((SPEED,), server=SPEED)))
    assert done == [1.0, 2.0]
    assert ending.seconds == 5.0


def test_operations_inside_a_conversation_are_charged_only_on_request() -> None:
    def program(context: WorkerContext) -> None:
        async def merge() -> None:
            counted_product()

        context.perform(merge())

    ending, _ = play(job(program), Simulator(network=INSTANT, devices=SPEED))
    assert ending.seconds == 0.0


def test_waiting_is_recorded_with_its_length() -> None:
    def waits(context: WorkerContext) -> None:
        async def wait() -> None:
            await context.port.receive("x")

        context.perform(wait())
        context.perform(nothing())

    def speaks(context: WorkerContext) -> None:
        counted_product()

        async def speak() -> None:
            await context.port.send("worker/0", Message("x"))

        context.perform(speak())

    _, events = play(job(waits, speaks), Simulator(network=INSTANT, devices=SPEED))
    assert times(events, Waited) == [(0.128, 0.128)]


def test_a_dispatch_mode_left_open_around_a_conversation_is_refused() -> None:
    def program(context: WorkerContext) -> None:
        with OperationCounter():
            context.perform(nothing())

    with pytest.raises(WorkloadError, match="inside its own TorchDispatchMode"):
        play(job(program, silent), Simulator(network=INSTANT))


def test_bytes_sent_is_what_everybody_has_sent() -> None:
    seen: list[int] = []

    def speaks(context: WorkerContext) -> None:
        async def speak() -> None:
            await context.port.send("worker/1", note())

        context.perform(speak())

    def looks(context: WorkerContext) -> None:
        async def look() -> None:
            await context.port.receive("x")

        context.perform(look())
        seen.append(context.bytes_sent)

    ending, _ = play(job(speaks, looks), Simulator(network=INSTANT))
    assert seen == [ending.bytes_sent]


def test_counting_does_not_hide_from_autograd_that_tensors_were_written_to() -> None:
    counter = OperationCounter()
    tensors = [torch.ones(2), torch.ones(3)]
    counter.start()
    torch._foreach_mul_(tensors, 2.0)
    assert [tensor._version for tensor in tensors] == [1, 1]
    assert counter.stop() == 0
