"""Sources of sums that are made tensor by tensor, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from polyrhythm.core.protocols.state import Stateful
from polyrhythm.core.protocols.topology import Agreement, WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree


@dataclass(frozen=True, slots=True)
class SingleTensor:
    """Tensor `number` of the vector that is `held`, which begins at element `start` of it; its weights are `weights()`."""

    number: int
    layout: Layout
    start: int
    held: WeightsView
    weights: Callable[[], Tensor]


class TensorSums(Stateful, Protocol):
    """Sums of one tensor over all workers, one after the other."""

    async def sum(self, value: Tensor, clock: int) -> Tensor:
        """The sum of what all send of their values (numel,) after step `clock`."""

    def take_over(self, state: StateTree, own: bool) -> None:
        """As `Channel.take_over`."""

    def inherit(self, residual: Tensor) -> None:
        """Add the residual (numel of the tensor,) of a worker that has left."""

    def states(self) -> list[tuple[State, Tensor]]:
        """The codec's states of this tensor and their residuals, in the order of the vector."""


class SumSource(Protocol):
    """A source of the sums of all tensors of a vector."""

    async def begin(self, layout: Layout) -> None:
        """Set the vector's layout, before anything is sent."""

    def tensor(self, single: SingleTensor) -> TensorSums:
        """The sums of one tensor; the least number is the most urgent."""

    async def finish(self) -> None:
        """Wait until all has left, and let servers end."""

    async def drain(self, step: int) -> str:
        """Have all that was sent arrive, and servers write their state after `step`. Returns what prevented one of them; else empty."""


class SumService(Protocol):
    """A topology that sums in any order."""

    def source(self, agreement: Agreement, endpoint: WorkerEndpoint) -> SumSource:
        """The source of a worker's sums."""
