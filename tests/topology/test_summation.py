"""A summation service: who sums what, with which bits, in which time; and what overtakes what."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from collectives import values

from polyrhythm.core.kernel.events import Ended, Reported
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.network import Network
from polyrhythm.topology import Direct, Server, Summation
from polyrhythm.topology.summation.send_queue import SendQueue
from polyrhythm.topology.summation.shares import Stretch, sizes, weights
from polyrhythm.topology.summation.summation_records import SumRequest

# --- shares


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_shares_are_those_of_the_paper_and_all_lines_are_busy_for_the_same_time(workers: int) -> None:
    n = workers
    for k in range(n + 1):
        shares = weights(n, k)
        whole = n * n + k * n - 2 * k
        assert sum(shares) == whole
        sent = (k * 2 * (n - 1) + 2 * (n - 1) * (n - k)) / whole  # by a worker: its parts, and the sums of its own
        assert sent == pytest.approx(2 * n * (n - 1) / whole)
        if k:
            assert n * shares[-1] / whole == pytest.approx(sent)  # a server sends its sums to all


@pytest.mark.parametrize("numel", [0, 1, 7, 100])
def test_without_spares_parts_are_those_of_tensor_split(numel: int) -> None:
    assert sizes(numel, weights(4, 0)) == [part.numel() for part in torch.tensor_split(torch.zeros(numel), 4)]


@pytest.mark.parametrize("numel", [0, 1, 7, 100])
@pytest.mark.parametrize("spares", [1, 3, 4])
def test_parts_are_all_of_a_vector_and_those_without_a_share_are_empty(numel: int, spares: int) -> None:
    parts = sizes(numel, weights(4, spares))
    assert sum(parts) == numel
    assert spares < 4 or not any(parts[:4])


def test_more_spares_than_workers_are_refused() -> None:
    with pytest.raises(CompositionError, match=r"3 spare machines for 2 workers gain nothing over 2"):
        run(lambda worker: None, workers=2, strategy=Strategy(topology=Summation(3)), on=Simulator())


@pytest.mark.parametrize("given", [{"spares": -1}, {"nbytes": 0}])
def test_what_is_no_number_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(CompositionError, match=r"is no .*: give"):
        Summation(**given)


# --- bits


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_any_stretch_is_summed_as_direct_sums_it(workers: int) -> None:
    numel = 23
    given = values(workers, numel)

    def program(context: WorkerContext) -> Message:
        rank = rank_of(context.port.name)
        return Message("", tensors=(context.perform(Direct().reduce(context.port, Group.of_workers(workers, rank), given[rank], "1")),))

    async def nothing(port: Any, record: Any) -> None:
        raise NotImplementedError

    ending = Simulator().execute(Job(workers, 0, program, nothing, lambda _: True), lambda _: None)
    direct = ending.results["worker/0"].tensors[0]  # type: ignore[union-attr]
    for low in range(0, numel, 3):
        for high in range(low + 1, numel + 1, 4):
            assert torch.equal(Stretch(low, numel).sum([value[low:high] for value in given]), direct[low:high])


def test_requests_are_what_their_numbers_state() -> None:
    request = SumRequest(3, 100, (2, 1))
    assert SumRequest.from_numbers(request.to_numbers()) == request


# --- time


NUMEL, PIECES = 2_000_000, 40


def exchanges(worker: Any, steps: int = 1) -> None:
    """Steps of a vector of which only the time matters; reports when each has started."""
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(NUMEL))])
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(steps):
        worker.report(began=0.0)
        worker.count(1)
        model[0].grad = torch.ones(NUMEL)
        optimizer.step()


@pytest.mark.parametrize(("spares", "expected"), [(0, 1.75), (4, 1.27), (8, 1.0)])
def test_eight_workers_take_the_time_and_send_the_bytes_of_the_paper(spares: int, expected: float) -> None:
    """t B / M = 2 n (n - 1) / (n² + k n - 2 k) (Jiang et al., 2020, section 4.1), on lines that carry as much each way."""
    bandwidth = 125e6
    on = Simulator(network=Network.uniform("even", bandwidth, 1e-5))
    strategy = Strategy(topology=Summation(spares, nbytes=4 * NUMEL // PIECES))
    outcome = run(exchanges, workers=8, strategy=strategy, on=on).outcome
    began = max(event.time for event in outcome.events if isinstance(event, Reported))
    assert (outcome.summary.virtual_seconds - began) * bandwidth / (4 * NUMEL) == pytest.approx(expected, rel=0.05)
    whole = 64 + 8 * spares - 2 * spares
    for event in outcome.events:
        if isinstance(event, Ended) and event.actor != "worker/0":
            sent = 8 * 14 / whole
            first = 4 * NUMEL * len(_children(event.actor))
            assert (event.bytes_sent - first) / (4 * NUMEL) == pytest.approx(sent, rel=0.02)


@pytest.mark.long
def test_later_steps_take_as_long_as_the_first() -> None:
    """What a worker has not sent yet of a step goes before what is more urgent of the next one: others still wait for it."""
    on = Simulator(network=Network.uniform("even", 125e6, 1e-5))
    job = partial(exchanges, steps=4)
    outcome = run(job, workers=8, strategy=Strategy(topology=Summation(4, nbytes=4 * NUMEL // PIECES)), on=on).outcome
    for rank in range(8):
        began = [event.time for event in outcome.events if isinstance(event, Reported) and event.actor == f"worker/{rank}"]
        took = [later - earlier for earlier, later in pairwise(began)]
        assert max(took) < 1.05 * min(took)


def _children(actor: str) -> list[int]:
    """To whom an actor sends worker 0's weights when all begin."""
    rank = rank_of(actor)
    reach = rank & -rank
    return [rank + (1 << k) for k in range(3) if actor.startswith("worker") and (1 << k) < reach and rank + (1 << k) < 8]


def test_it_takes_less_than_servers_that_hold_the_weights_where_there_are_fewer_spares_than_workers() -> None:
    seconds = []
    for topology in (Summation(2, nbytes=4 * NUMEL // PIECES), Server(2)):
        outcome = run(
            exchanges, workers=4, strategy=Strategy(topology=topology), on=Simulator(network=Network.uniform("even", 125e6, 1e-5))
        ).outcome
        began = max(event.time for event in outcome.events if isinstance(event, Reported))
        last = max(event.time for event in outcome.events if type(event).__name__ == "Stepped")
        seconds.append(last - began)
    assert seconds[0] < 0.5 * seconds[1]


# --- what overtakes what


SLOW = Simulator(network=Network.uniform("slow", 1000.0, 0.0))


def queued(put: Any, lanes: int) -> list[tuple[float, str]]:
    """When what worker 0 puts into a queue reaches the others, by text."""
    came: list[tuple[float, str]] = []

    async def send(context: WorkerContext) -> None:
        queue = SendQueue(context.port, lanes)
        await put(context.port, queue)
        await queue.drain()
        for name in ("worker/1", "worker/2"):
            await context.port.send(name, Message("x", text="end"))

    async def receive(context: WorkerContext) -> None:
        while (delivery := await context.port.receive("x")) is not None and delivery.message.text != "end":
            came.append((round(context.port.now(), 1), delivery.message.text))

    def program(context: WorkerContext) -> None:
        context.perform(receive(context) if rank_of(context.port.name) else send(context))

    async def nothing(port: Any, record: Any) -> None:
        raise NotImplementedError

    SLOW.execute(Job(3, 0, program, nothing, lambda _: True), lambda _: None)  # type: ignore[arg-type]
    return came


def parcel(text: str) -> Message:
    """Takes a second."""
    return Message("x", text=text, tensors=(torch.zeros(1000 - 24 - 1 - len(text) - 12, dtype=torch.uint8),))


def test_what_is_urgent_goes_before_what_was_put_first_but_not_before_what_is_on_its_way() -> None:
    async def put(port: Any, queue: SendQueue) -> None:
        for priority, text in ((5, "a"), (5, "b"), (3, "c"), (4, "d")):
            await queue.put((priority,), "worker/1", parcel(text))
        await port.sleep(1.5)
        await queue.put((0,), "worker/1", parcel("e"))

    assert queued(put, 2) == [(1.0, "a"), (2.0, "c"), (3.0, "e"), (4.0, "d"), (5.0, "b")]


@pytest.mark.parametrize(("lanes", "times"), [(1, [1.0, 2.0, 3.0, 4.0]), (2, [2.0, 2.0, 4.0, 4.0])])
def test_no_more_receivers_than_lanes_are_sent_to_at_a_time(lanes: int, times: list[float]) -> None:
    async def put(port: Any, queue: SendQueue) -> None:
        for text in "ab":
            for name in ("worker/1", "worker/2"):
                await queue.put((1,), name, parcel(text))

    assert [time for time, _ in queued(put, lanes)] == times
