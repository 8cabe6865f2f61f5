"""The message by which worker 0 has the servers hold the vectors of a whole batch, and deal its portions."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec
from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.whole_batch.batch_server import BatchServer
from polyrhythm.core.whole_batch.portion_dealer import PortionDealer
from polyrhythm.core.whole_batch.portion_desk import PortionDesk


class BatchOpening(msgspec.Struct, frozen=True, tag="batch"):
    """A whole batch as an `Opening` that can be sent: so many `portions`, each computed by at most `copies` workers at a time.

    Where the crew may change the servers can return to the last steps.
    """

    scope: str
    portions: int
    copies: int
    returns: bool = False

    def serve(self, consistency: Consistency, endpoint: ServerEndpoint, given: Sequence[Tensor]) -> Coroutine[Effect[Any], Any, None]:
        """A server's side; `given` is its part of the first weights."""
        group = endpoint.group
        dealer = PortionDealer(self.portions, self.copies, group.size, endpoint.workers) if group.is_first else None
        desk = None if dealer is None else PortionDesk(dealer, endpoint.port)
        return BatchServer(given[0], endpoint, desk, self.returns).live()
