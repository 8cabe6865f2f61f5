"""Sends and receives through shared memory: two and three ranks in one process, with rings in C and with numpy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.core.shared_memory import RingMemory, rings_of
from polyrhythm.core.shared_memory.portable_rings import PortableRings
from polyrhythm.core.shared_memory.ring_memory import Rings, capacity
from polyrhythm.errors import RunError
from polyrhythm.process_group.transfers import RingTransfers

Engine = Callable[[RingMemory, int], Rings]
PAIRS = [(rings_of, rings_of), (PortableRings, PortableRings), (rings_of, PortableRings), (PortableRings, rings_of)]


@contextmanager
def ranks(*engines: Engine, seconds: float = 20.0) -> Iterator[list[RingTransfers]]:
    memory = RingMemory.create(len(engines))
    found = [RingTransfers(memory, rank, [10, 11, 12], seconds, engine) for rank, engine in enumerate(engines)]
    try:
        yield found
    finally:
        for each in found:
            each.close()
        memory.close()


@pytest.mark.parametrize("engines", PAIRS)
def test_a_tensor_larger_than_a_ring_arrives_although_the_sender_does_something_else(engines: tuple[Engine, Engine]) -> None:
    sent = torch.randn(3 * capacity(2))
    with ranks(*engines) as (first, second):
        sending = first.send(sent, 1, 0)
        assert not sending.is_completed()
        received = torch.empty_like(sent)
        second.receive(received, 0, 0).wait()
        assert torch.equal(received, sent)
        sending.wait()


@settings(max_examples=20, deadline=None)
@given(
    engines=st.sampled_from(PAIRS),
    messages=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 7, 1000, 40_000, 500_000])), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_each_receive_gets_the_first_message_of_its_tag_that_no_earlier_one_got(
    engines: tuple[Engine, Engine], messages: list[tuple[int, int]], order: object
) -> None:
    with ranks(*engines) as (first, second):
        tensors = [torch.full((size,), float(number)) for number, (_, size) in enumerate(messages)]
        sends = [first.send(tensor, 1, tag) for tensor, (tag, _) in zip(tensors, messages, strict=True)]
        tags = sorted({tag for tag, _ in messages})
        order.shuffle(tags)  # type: ignore[attr-defined]
        for tag in tags:
            for tensor in [each for each, (its, _) in zip(tensors, messages, strict=True) if its == tag]:
                received = torch.empty_like(tensor)
                assert second.receive(received, 0 if tag else None, tag).wait()
                assert torch.equal(received, tensor)
        assert all(send.wait() for send in sends)


def test_receives_that_are_posted_first_are_filled_in_their_order_and_from_anyone() -> None:
    with ranks(rings_of, rings_of, rings_of) as (first, second, third):
        rooms = [torch.empty(4) for _ in range(3)]
        receives = [third.receive(room, source, 5) for room, source in zip(rooms, (None, 0, None), strict=True)]
        for sender, value in ((first, 1.0), (second, 2.0), (first, 3.0)):
            sender.send(torch.full((4,), value), 2, 5)
        assert all(receive.wait() for receive in receives)
        assert sorted(room[0].item() for room in rooms) == [1.0, 2.0, 3.0]
        assert rooms[0][0] != 3.0
        assert sorted(receive.source_rank() for receive in receives) == [0, 0, 1]
        assert receives[1].source_rank() == 0
        assert receives[1].get_future().wait()[0] is rooms[1]


def test_strides_are_kept_and_futures_are_completed() -> None:
    with ranks(rings_of, rings_of) as (first, second):
        room = torch.zeros(6, 4).t()
        receive = second.receive(room, 0, 0)
        future = receive.get_future()
        first.send(torch.arange(24.0).view(6, 4).t(), 1, 0)
        receive.wait()
        assert torch.equal(future.wait()[0], torch.arange(24.0).view(6, 4).t())


def test_a_message_of_another_size_is_an_error_of_the_receive_and_the_next_one_arrives() -> None:
    with ranks(rings_of, rings_of) as (first, second):
        first.send(torch.ones(3), 1, 0)
        first.send(torch.ones(5), 1, 0)
        with pytest.raises(RunError, match="receive from rank 10 of 16 bytes got 12"):
            second.receive(torch.empty(4), 0, 0).wait()
        assert second.receive(torch.empty(5), 0, 0).wait()


@pytest.mark.parametrize("engine", [rings_of, PortableRings])
def test_a_wait_ends_at_its_timeout_and_when_the_other_is_lost_but_what_was_sent_before_comes(engine: Engine) -> None:
    with ranks(engine, engine) as (first, second):
        with pytest.raises(RunError, match=r"receive from anyone was not done within 0\.05 s"):
            second.receive(torch.empty(1), None, 3).wait(timedelta(seconds=0.05))
        first.send(torch.ones(2), 1, 0)
        threading.Timer(0.05, second.lose, [0]).start()
        with pytest.raises(RunError, match="Rank 10 was lost: its process ended before a receive from rank 10"):
            second.receive(torch.empty(2), 0, 1).wait()
        assert second.receive(torch.empty(2), 0, 0).wait()
        with pytest.raises(RunError, match="before a send to rank 10"):
            second.send(torch.ones(10**6), 0, 0).wait()


def test_the_thread_of_a_group_moves_what_nobody_waits_for() -> None:
    sent = torch.randn(2 * capacity(2))
    with ranks(rings_of, rings_of) as (first, second):
        received = torch.empty_like(sent)
        receiving, sending = second.receive(received, 0, 0), first.send(sent, 1, 0)
        deadline = time.monotonic() + 20
        while not (receiving.done and sending.done):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        assert torch.equal(received, sent)
