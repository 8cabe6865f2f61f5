"""The records that workers and the servers of a table send each other; on the wire they are a message's numbers."""

from __future__ import annotations

from typing import NamedTuple

REQUESTS = "ask"
"""All requests of a table have this topic, so that a server gets those of each worker in the order in which they were sent."""


class TableUpdate(NamedTuple):
    """The sender's updates up to `clock`, made knowing `version`; the tensors are local rows (n,) and their packet."""

    clock: int
    version: int


class TableRead(NamedTuple):
    """A request for rows by a worker that has ended `clock`.

    The tensors are the rows that it knows as of the version `since` or newer, of which those that have changed are sent, and the rows that
    it does not know. `every` says that it knows all rows of this server: then the first tensor is empty.
    """

    clock: int
    since: int
    every: bool


class TableDone(NamedTuple):
    """A worker has sent all that it will."""


class TableDrain(NamedTuple):
    """A worker has sent all that comes before a checkpoint after `step`, and sends nothing until it is written."""

    step: int


class TableAdopt(NamedTuple):
    """A request for what nobody has, the sender's of this `number`; the tensors are local rows and a packet of what is wanted of them."""

    number: int


class TableRelease(NamedTuple):
    """A `TableUpdate` whose sender also gives something up: after its tensors come local rows and a packet of that."""

    clock: int
    version: int


TableRequest = TableUpdate | TableRead | TableDone | TableDrain | TableAdopt | TableRelease
_KINDS: tuple[type[TableRequest], ...] = (TableUpdate, TableRead, TableDone, TableDrain, TableAdopt, TableRelease)
"""The index of a kind is the first number of its requests."""


class ReadStatus(NamedTuple):
    """The numbers of a response, next to the rows: the server's version, the slowest visible clock, and the reader's own visible one."""

    version: int
    slowest: float
    own: int


def to_numbers(request: TableRequest) -> tuple[float, ...]:
    """The index of the request's kind, then its fields in order."""
    return (float(_KINDS.index(type(request))), *map(float, request))


def from_numbers(numbers: tuple[float, ...]) -> TableRequest:
    """The request that `to_numbers` has turned into `numbers`."""
    kind, fields = _KINDS[int(numbers[0])], [int(number) for number in numbers[1:]]
    if kind is TableRead:
        clock, since, every = fields
        return TableRead(clock, since, bool(every))
    return kind(*fields)  # type: ignore[arg-type]
