"""Messages between workers and the shards of parameter servers, as records; on the wire they are a message's numbers.

`ServerRequests` sends the requests, and `ServerShard` answers them; server rings and block stores use some of them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

REQUESTS = "ask"
"""All requests to a shard have this topic, so that it gets those of each worker in the order in which they were sent."""

UNASKED = "unasked"
"""Weights that go to workers without a request: numbers and tensors as of a response."""


class Wanted(IntEnum):
    """The response that a push or a fetch requests."""

    NOTHING = 0
    """No response."""
    NEWER = 1
    """The weights, if there is a newer version than the sender's."""
    WEIGHTS = 2
    """The weights in any case."""


class JoinRequest(NamedTuple):
    """A worker begins. That of worker 0 has the `ShardRecipe` as text, and the weights."""


class Push(NamedTuple):
    """A contribution of step `clock`, computed on weights of `version`; `rates` are the learning rates of the sender's parameter groups.

    `samples` is what it was computed on, where the merge weighs by them; else 0, and not sent.
    """

    clock: int
    version: int
    wanted: Wanted
    rates: tuple[float, ...]
    samples: float = 0.0


class Done(NamedTuple):
    """A worker has sent its last contribution, and requests the final weights."""


class Wake(NamedTuple):
    """A shard's message to itself: a worker was lost."""


class Fetch(NamedTuple):
    """A request for weights after step `clock`, from a worker that has `version`."""

    clock: int
    version: int
    wanted: Wanted


class Drain(NamedTuple):
    """A worker has sent all before a checkpoint after `step`, and sends nothing until it is written."""

    step: int


class AwaitHeadStart(NamedTuple):
    """A request for the weights when the first `workers`, who train alone, have each pushed a contribution of step `clock`."""

    clock: int
    workers: int


class Rest(NamedTuple):
    """A worker takes no further step while the crew is as it is: nobody is to wait for one."""


ServerRequest = JoinRequest | Push | Done | Wake | Fetch | Drain | AwaitHeadStart | Rest
_KINDS = (JoinRequest, Push, Done, Wake, Fetch, Drain, AwaitHeadStart, Push, Rest)
"""A kind's place is the first number of its requests; that of a push with samples is `_WEIGHED`."""
_WEIGHED = 7
_WITHOUT_FIELDS: dict[type[ServerRequest], ServerRequest] = {JoinRequest: JoinRequest(), Done: Done(), Wake: Wake(), Rest: Rest()}


def to_numbers(request: ServerRequest) -> tuple[float, ...]:
    """The kind, then the fields in order, a push's rates last, and before them its samples if it has any."""
    if isinstance(request, Push):
        *fields, rates, samples = request
        return (float(_WEIGHED), *map(float, fields), samples, *rates) if samples else (1.0, *map(float, fields), *rates)
    return (float(_KINDS.index(type(request))), *map(float, request))


def from_numbers(numbers: tuple[float, ...]) -> ServerRequest:
    """The request whose `to_numbers` these are."""
    kind = _KINDS[int(numbers[0])]
    if kind is Push:
        number, clock, version, wanted, *rates = numbers
        samples = rates.pop(0) if number == _WEIGHED else 0.0
        return Push(int(clock), int(version), Wanted(int(wanted)), tuple(rates), samples)
    if kind is Fetch:
        _, clock, version, wanted = numbers
        return Fetch(int(clock), int(version), Wanted(int(wanted)))
    if kind is Drain:
        return Drain(int(numbers[1]))
    if kind is AwaitHeadStart:
        return AwaitHeadStart(int(numbers[1]), int(numbers[2]))
    return _WITHOUT_FIELDS[kind]


def push_of(numbers: Sequence[float]) -> Push:
    """The push whose `to_numbers` these are."""
    push = from_numbers(tuple(numbers))
    assert isinstance(push, Push), "only pushes are kept"
    return push


class ShardStatus(NamedTuple):
    """A shard's response without the weights: their version, and the slowest worker's merged step (infinite when all are done)."""

    version: int
    slowest: float

    def to_numbers(self) -> tuple[float, ...]:
        """The fields in order."""
        return (float(self.version), self.slowest)

    @staticmethod
    def from_numbers(numbers: tuple[float, ...]) -> ShardStatus:
        """The status whose `to_numbers` these are."""
        version, slowest = numbers
        return ShardStatus(int(version), slowest)


class ShardRecipe(msgspec.Struct, frozen=True):
    """The first message of worker 0 to a shard: names and shapes of its part, and how to build the user's optimizer."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    optimizer: str
