"""Messages of workers to the servers of a summation service, and the rule by which these sum."""

from __future__ import annotations

from typing import NamedTuple

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.topology.summation.send_queue import Priority
from polyrhythm.topology.summation.shares import Stretch
from polyrhythm.topology.summation.sum_server import SumResponse

SUMS = "sum"
"""The topic. The text of a message is the topic of the sum."""


class SumRequest(NamedTuple):
    """The value begins at element `start` of a vector of `numel`; the response goes by `priority`."""

    start: int
    numel: int
    priority: Priority

    def to_numbers(self) -> tuple[float, ...]:
        """The fields in order."""
        return (float(self.start), float(self.numel), *map(float, self.priority))

    @staticmethod
    def from_numbers(numbers: tuple[float, ...]) -> SumRequest:
        """The request whose `to_numbers` these are."""
        start, numel, *priority = map(int, numbers)
        return SumRequest(start, numel, tuple(priority))


class StretchSums:
    """The `SumRule` that adds values in the order of `Stretch.sum`, and answers by the priority that workers gave them."""

    topic = SUMS

    def __init__(self, endpoint: ServerEndpoint) -> None:
        self.number = len(endpoint.workers) + endpoint.group.rank

    async def begin(self, port: Port) -> None:
        """Nothing to prepare: each request describes itself."""

    def respond(self, last: Message, packets: list[Packet]) -> SumResponse:
        """The sum of one stretch."""
        request = SumRequest.from_numbers(last.numbers)
        total = Stretch(request.start, request.numel).sum([value for [value] in packets])
        return SumResponse(request.priority, f"{last.text}.g.{self.number}", total)
