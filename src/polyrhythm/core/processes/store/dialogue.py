"""The messages between a store and its clients, each a control frame over an authenticated connection.

`StoreAttempt` and `StoreClient` speak for the client, `StoreServer` and `StoreRound` for the store.

client  set     text: key                payload: the value
        get     text: keys, one a line   numbers: the number of the request; answered when all of them are set
        add     text: key                numbers: the number of the request, what is added; an absent key counts as 0
        check   text: keys, one a line   numbers: the number of the request; answered at once
        failed  payload: the error with which the client ends; everybody's round has failed
        done    the client needs the store no more
store   welcome the client has been received, and may ask
        reply   numbers: the number of the request   payload: msgpack, a list of values; of `add` the sum as text
        again   text: why the client cannot be received now, but may be later
        refused text: why the client will not be received
        over    text: with what the rendezvous has failed
        failed  numbers: the number of a request that can no longer be answered   payload: the error that has ended the round
"""

from __future__ import annotations

import re

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.core.processes.transport.wire import Limits, packed
from polyrhythm.errors import WireError

STORE = "store"
"""The name of a store in its handshake; its callers have the names of workers."""

WIRING = Wiring(limits=Limits(topic=16, text=1 << 16, numbers=2, tensors=1, dimensions=1, payload=1 << 22), lanes=0)
"""Frames with a store: values have 1 MiB at most, and a reply has several."""

PUBLIC = b"polyrhythm: no secret was given"
"""In place of a secret where there is none: every process that reaches the store can then read it and take part."""

_WORKER = re.compile(r"worker/(0|[1-9][0-9]{0,6})")


def is_worker(name: str) -> bool:
    """True if `name` is that of a worker of some run, of whatever size: no other is expected at a store."""
    return _WORKER.fullmatch(name) is not None


def message(topic: str, text: str = "", numbers: tuple[float, ...] = (), payload: bytes = b"") -> Message:
    """A frame of this dialogue."""
    return Message(topic, numbers, text, packed(payload) if payload else ())


def payload_of(frame: Message) -> bytes:
    """The payload that `message` was given."""
    return frame.tensors[0].numpy().tobytes() if frame.tensors else b""


def numbers_of(frame: Message, count: int) -> list[int]:
    """The whole numbers of a frame that must have that many. Raises WireError for others."""
    if len(frame.numbers) != count or not all(number.is_integer() for number in frame.numbers):
        raise WireError(f"A client's {frame.topic[:16]!r} has the numbers {frame.numbers}.")
    return [int(number) for number in frame.numbers]
