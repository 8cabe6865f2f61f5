"""Other ways to exchange than a whole vector at a time. Channels of some topologies offer them, and replicas use them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.requests import CollectiveOperations
from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.tensors import Layout


class Buckets(Protocol):
    """Parts of a value that can be sent before the rest of it is known."""

    @property
    def layouts(self) -> Sequence[Layout]:
        """The parts: consecutive, the last one of the whole layout first."""

    async def exchange_bucket(self, bucket: int, value: Tensor) -> None:
        """Exchange one part (numel of its layout,), now or when its turn comes, and keep the result.

        Parts come as they are computed, in an order that may differ between workers: a topology that needs one order must ensure it.
        """

    async def conclude(self, rates: tuple[float, ...]) -> Response:
        """The response to apply, after every part has been sent."""


class Tensors(Protocol):
    """Tensors that are sent as each becomes known, and waited for one by one; other workers may be at different ones."""

    async def send(self, number: int, value: Tensor, clock: int) -> None:
        """Start to exchange the layout's tensor `number` (numel of it,) at step `clock`; returns before the result has come."""

    async def receive(self, numbers: Sequence[int]) -> list[Tensor]:
        """Wait for the means over all workers (numel of each,) of tensors that were sent."""


class InPlace(Protocol):
    """Exchanges gradients and leaves the merged ones in their place, without copies where the runtime can do without.

    `sends` is True if gradients leave the worker; only then must they be dense.
    """

    @property
    def sends(self) -> bool: ...

    async def exchange_parts(self, parts: Sequence[Tensor]) -> Response:
        """Exchange the vector that `parts` are in order (`Channel.exchange`); the response is to step on the merged parts.

        Parts are flat, contiguous, of one type and on one device, and no two share memory.
        """


class Late(Protocol):
    """Responses to updates that come some steps after these were sent; meanwhile the worker steps on."""

    def due(self, clock: int) -> bool:
        """True if the worker takes over a response after step `clock`."""

    @property
    def under_way(self) -> bool:
        """True if there is a response that was not taken over."""

    async def collect(self) -> Response:
        """Wait for the response that is due."""


class Waiting(NamedTuple):
    """The `value` (numel,) that a worker has sent after step `clock`, for a sum that has not come."""

    clock: int
    value: Tensor
    rates: tuple[float, ...]


class LateResults(Protocol):
    """Sums that come later than the exchanges that begin them."""

    @property
    def come(self) -> int:
        """The step after which the last sum began that has come; 0 before there is one."""

    def over(self, clock: int) -> bool:
        """True if the exchange of step `clock` is completed, and its sum has come."""

    def waiting(self) -> Sequence[Waiting]:
        """What was sent by exchanges that are over, for sums that have not come."""

    def send_again(self, waiting: Sequence[Waiting]) -> None:
        """In another view, make the sums that have not come where this continues from."""


class RowWrites(NamedTuple):
    """Rows that workers wrote to weights that they share without locks, and the number of these writes that were lost."""

    written: int
    lost: int


@dataclass(frozen=True, slots=True)
class Offers:
    """Other ways to exchange that a channel offers; None for each that it does not."""

    buckets: Buckets | None = None
    """A value in parts, each as soon as it is known."""
    collective: CollectiveOperations | None = None
    """Sums of other values than the exchange's, among its workers."""
    in_place: InPlace | None = None
    """Gradients where they lie, without one vector of them."""
    late: Late | None = None
    """Responses to updates some steps later; without it `exchange` returns them itself."""
    sums: LateResults | None = None
    """Sums that come later than the exchanges that begin them."""
    tensors: Tensors | None = None
    """Gradients tensor by tensor."""
    writes: RowWrites | None = None
    """The workers' writes to shared weights, where they are counted."""
    rest: Callable[[], Coroutine[Effect[Any], Any, None]] | None = None
    """Announces that the worker takes no further step while the crew is as it is, where others would wait for one."""


NOTHING = Offers()
"""The offers of a channel that has `exchange` alone."""
