"""What a member of `algorithms` must have. `MessageGroup` chooses one by the name of its backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.process_group.messages.algorithms.costs import Costs
from polyrhythm.process_group.messages.matching import Sending, TalliedReceiving
from polyrhythm.process_group.messages.party import Doing, Party
from polyrhythm.process_group.operations import Reduction


class PeerMessages(Protocol):
    """Sends and receives between the members of a group."""

    async def listen(self) -> None:
        """Match what comes with receives, as long as the member lives."""

    def deliver(self, to: str, message: Message, work: Sending) -> Callable[[], Doing]:
        """Send to a member; ends when the tensor may be written to again."""

    def take(self, source: int | None, tag: int, work: TalliedReceiving) -> Callable[[], Doing]:
        """Receive into the outputs of `work`, from anyone without `source`."""


class Algorithms(Protocol):
    """How the collectives of a backend communicate. Tensors are flat and contiguous; what is sent is not written to afterwards."""

    @property
    def at_once(self) -> int:
        """The number of collectives of one group that are under way at once."""

    @property
    def costs(self) -> Costs:
        """By formula, with all collectives below."""

    def peers(self, port: Port, topic: str, members: Sequence[str], within: float | None) -> PeerMessages:
        """Those of one member."""

    async def all_reduce(self, party: Party, flat: Tensor, how: Reduction) -> Tensor:
        """The reduction of everyone's `flat` (numel,), to the bit the same at all."""

    async def reduce_scatter(self, party: Party, parts: Sequence[Tensor], how: Reduction) -> Tensor:
        """Part `rank` of the reduction of everyone's `parts`."""

    async def all_gather(self, party: Party, own: Tensor) -> list[Tensor]:
        """Everyone's `own`, by rank; they may differ in size."""

    async def broadcast(self, party: Party, tensors: Sequence[Tensor], root: int) -> Sequence[Tensor]:
        """The root's `tensors`."""

    async def reduce(self, party: Party, flat: Tensor, how: Reduction, root: int) -> Tensor | None:
        """The reduction of everyone's `flat` at the root; None at the others."""

    async def gather(self, party: Party, own: Tensor, root: int) -> list[Tensor] | None:
        """Everyone's `own` at the root; None at the others."""

    async def scatter(self, party: Party, parts: Sequence[Tensor], root: int) -> Tensor:
        """The part of this rank of the root's `parts`."""

    async def all_to_all(self, party: Party, parts: Sequence[Tensor]) -> list[Tensor]:
        """What each has for this rank: part k goes to rank k."""

    async def barrier(self, party: Party) -> None:
        """Return when all have come."""
