"""Gradients that leave, bucket by bucket, while `backward()` computes the others."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.offers import Buckets
from polyrhythm.core.strategy.deferral.arrivals import Arrivals
from polyrhythm.core.strategy.gradients import Parameters


class Overlap:
    """Starts the exchange of a bucket when all its parameters have their gradients, in whatever order that is.

    `check` is called with each value before it leaves.
    """

    def __init__(self, parameters: Parameters, buckets: Buckets, context: WorkerContext, check: Callable[[Tensor], None]) -> None:
        self.buckets = buckets
        self.weight: Callable[[], float] = lambda: 1.0
        """Gives the weight of the batch in a mean over workers."""
        self.context = context
        self.groups = _groups(parameters.parameters, [len(layout.names) for layout in buckets.layouts])
        self.group_of = {id(parameter): k for k, group in enumerate(self.groups) for parameter in group}
        self.parameters = parameters.parameters
        self.arrivals = Arrivals(parameters, self._arrive, check)
        self._reset()

    def _reset(self) -> None:
        self._missing = [len(group) for group in self.groups]
        self._started: set[int] = set()

    @property
    def under_way(self) -> bool:
        """True if gradients have come since the last step."""
        return bool(self.arrivals.came)

    def begin_rest(self) -> None:
        """Start the exchanges that have not started, because some parameter got no gradient."""
        for bucket in range(len(self.groups)):
            if bucket not in self._started:
                self._begin(bucket, 1.0)
        self.arrivals.reset()
        self._reset()

    def _arrive(self, number: int) -> None:
        bucket = self.group_of[id(self.parameters[number])]
        self._missing[bucket] -= 1
        if not self._missing[bucket]:
            self._begin(bucket, self.arrivals.done)

    def _begin(self, bucket: int, done: float) -> None:
        value = self.arrivals.take(self.groups[bucket])
        if (weight := self.weight()) != 1:
            value = value * weight
        self._started.add(bucket)
        self.context.begin(self.buckets.exchange_bucket(bucket, value), done)


def _groups(parameters: list[nn.Parameter], sizes: list[int]) -> list[list[nn.Parameter]]:
    """The parameters of each bucket, the last ones first."""
    groups, end = [], len(parameters)
    for size in sizes:
        groups.append(parameters[end - size : end])
        end -= size
    return groups
