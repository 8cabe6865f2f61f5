"""Requests to servers are the same numbers on the wire as ever, and come back as they were."""

from __future__ import annotations

import math

import pytest

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport.wire import encode
from polyrhythm.topology.peers.peer_inbox import PeerUpdate
from polyrhythm.topology.servers.server_records import (
    AwaitHeadStart,
    Done,
    Drain,
    Fetch,
    JoinRequest,
    Push,
    ServerRequest,
    ShardStatus,
    Wake,
    Wanted,
    from_numbers,
    to_numbers,
)

NUMBERS: list[tuple[ServerRequest, tuple[float, ...]]] = [
    (JoinRequest(), (0.0,)),
    (Push(7, 3, Wanted.NOTHING, (0.1, 0.2)), (1.0, 7.0, 3.0, 0.0, 0.1, 0.2)),
    (Push(7, 3, Wanted.NEWER, ()), (1.0, 7.0, 3.0, 1.0)),
    (Push(7, 3, Wanted.NEWER, (0.1,), 32.0), (7.0, 7.0, 3.0, 1.0, 32.0, 0.1)),
    (Done(), (2.0,)),
    (Wake(), (3.0,)),
    (Fetch(8, 4, Wanted.WEIGHTS), (4.0, 8.0, 4.0, 2.0)),
    (Drain(9), (5.0, 9.0)),
    (AwaitHeadStart(6, 2), (6.0, 6.0, 2.0)),
]


@pytest.mark.parametrize(("request_", "numbers"), NUMBERS, ids=str)
def test_a_request_is_the_numbers_that_it_always_was(request_: ServerRequest, numbers: tuple[float, ...]) -> None:
    assert list(map(bytes, encode(Message("ask", to_numbers(request_))))) == list(map(bytes, encode(Message("ask", numbers))))
    back = from_numbers(numbers)
    assert (type(back), back) == (type(request_), request_)


def test_a_response_and_an_update_of_a_peer_are_the_numbers_that_they_always_were() -> None:
    assert ShardStatus(3, math.inf).to_numbers() == (3.0, math.inf)
    assert ShardStatus.from_numbers((3.0, 2.0)) == ShardStatus(3, 2.0)
    assert PeerUpdate(4.0, (0.1,)).to_numbers() == (4.0, 0.1)
    assert PeerUpdate.from_numbers((math.inf,)) == PeerUpdate(math.inf)
    weighed = PeerUpdate(4.0, (0.1,), 32.0)
    assert PeerUpdate.from_numbers(weighed.to_numbers(), weighs=True) == weighed
    assert PeerUpdate.from_numbers((math.inf,), weighs=True) == PeerUpdate(math.inf)
