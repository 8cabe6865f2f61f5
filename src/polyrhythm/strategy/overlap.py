"""Gradients that leave, bucket by bucket, while `backward()` computes the others."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from polyrhythm.kernel.job import WorkerContext
from polyrhythm.pieces.topology import Buckets
from polyrhythm.strategy.arrivals import Arrivals
from polyrhythm.strategy.gradients import Parameters


class Overlap:
    """Begins the exchange of a bucket when all its parameters have their gradient, and those before it have begun.

    `check` is shown each value before it leaves.
    """

    def __init__(self, parameters: Parameters, buckets: Buckets, context: WorkerContext, check: Callable[[Tensor], None]) -> None:
        self.buckets = buckets
        self.context = context
        self.groups = _groups(parameters.parameters, [len(layout.names) for layout in buckets.layouts])
        self.group_of = {id(parameter): k for k, group in enumerate(self.groups) for parameter in group}
        self.parameters = parameters.parameters
        self.arrivals = Arrivals(parameters, self._arrive, check)
        self._reset()

    def _reset(self) -> None:
        self._missing = [len(group) for group in self.groups]
        self._begun = 0

    @property
    def under_way(self) -> bool:
        """Whether gradients have come since the last step."""
        return bool(self.arrivals.came)

    def begin_rest(self) -> None:
        """Begin what has not begun: where a parameter got no gradient, its bucket and those after it still wait."""
        while self._begun < len(self.groups):
            self._begin(1.0)
        self.arrivals.reset()
        self._reset()

    def _arrive(self, number: int) -> None:
        self._missing[self.group_of[id(self.parameters[number])]] -= 1
        while self._begun < len(self.groups) and not self._missing[self._begun]:
            self._begin(self.arrivals.done)

    def _begin(self, done: float) -> None:
        value = self.arrivals.take(self.groups[self._begun])
        self.context.begin(self.buckets.exchange_bucket(self._begun, value), done)
        self._begun += 1


def _groups(parameters: list[nn.Parameter], sizes: list[int]) -> list[list[nn.Parameter]]:
    """The parameters of each bucket, the last ones first."""
    groups, end = [], len(parameters)
    for size in sizes:
        groups.append(parameters[end - size : end])
        end -= size
    return groups
