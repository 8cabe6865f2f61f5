"""What a server's part of the weights is for its primary: `ShardRole` is one, and `Primary` leads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.kernel.message import Delivery
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.served_weights import ServedWeights
from polyrhythm.core.protocols.topology import Agreement, ServerEndpoint
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.server_ring.shard_copy import ShardCopy


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """The pieces that have been agreed on, what servers respond, and how many lists of keys they remember."""

    agreement: Agreement
    responses: ServedWeights
    lists: int


class LedPart(Protocol):
    """A primary's view of its part, which is a `ShardRole`."""

    shard: int
    settings: RoleSettings
    base: Port
    port: Port
    endpoint: ServerEndpoint
    view: View
    left: set[str]
    copy: ShardCopy
    earlier: StateTree

    @property
    def over(self) -> bool:
        """True if no worker needs this part any more."""

    async def receive(self) -> Delivery:
        """The next message about this part."""

    def export(self) -> StateTree:
        """The newest state of this part."""
