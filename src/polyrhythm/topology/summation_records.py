"""What workers send to the servers of a summation service, beside their values."""

from __future__ import annotations

from typing import NamedTuple

from polyrhythm.topology.send_queue import Priority

SUMS = "sum"
"""The topic. The text of a message is the topic of the sum.

A message without a value is a worker's last, or its last before a checkpoint after the step that is its number.
"""


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
