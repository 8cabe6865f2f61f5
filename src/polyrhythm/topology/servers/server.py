"""Parameter servers: the weights live in shards that workers push to and pull from."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.division import Division
from polyrhythm.core.protocols.result_source import Shards
from polyrhythm.core.protocols.served_weights import ServedWeights
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint, ServerSide, WorkerEndpoint
from polyrhythm.core.protocols.traits import EVERY_PAYLOAD, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import SERVED
from polyrhythm.topology.servers.background_client import BackgroundClient
from polyrhythm.topology.servers.division import EvenRows
from polyrhythm.topology.servers.held_client import HeldClient
from polyrhythm.topology.servers.sampled_client import SampledClient
from polyrhythm.topology.servers.served_weights import AllWeights
from polyrhythm.topology.servers.server_client import ServerClient
from polyrhythm.topology.servers.server_requests import ServerRequests
from polyrhythm.topology.servers.server_shard import ServerShard


@dataclass(frozen=True, slots=True, repr=False)
@checked
class Server:
    """The weights in `shards` parts, each on a separate server (Li et al., 2014): of nearly equal bytes, or as `division` has them.

    A worker sends each shard one request a round and gets at most one response; encoded contributions go to the server, weights come
    back as they are: all of them, or, with `responses=ChangedRows()`, those rows that the worker does not have.
    """

    traits: ClassVar = TopologyTraits(EVERY_PAYLOAD, "with a server", SERVED)
    result: ClassVar = Shards()

    shards: int = 1
    responses: ServedWeights = field(default_factory=AllWeights, repr=False)
    division: Division = field(default_factory=EvenRows, repr=False)

    def __post_init__(self) -> None:
        if self.shards < 1:
            raise CompositionError(f"Server(shards={self.shards}) has nowhere to keep the weights: give 1 or more.")

    def __repr__(self) -> str:
        special = "" if self.responses == AllWeights() else f", responses={self.responses!r}"
        special += "" if self.division == EvenRows() else f", division={self.division!r}"
        return f"Server(shards={self.shards}{special})"

    def workers(self, available: int) -> int:
        return available

    @property
    def service(self) -> ServerSide:
        """One server for each shard."""
        return _Shards(self.shards, self.responses, self.division)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        traits = agreement.consistency.traits
        requests = ServerRequests(agreement, endpoint, self.responses, self.division)
        if traits.chooses:
            return SampledClient(agreement, requests)
        client = (ServerClient if traits.waits else BackgroundClient)(agreement, requests)
        return HeldClient(agreement.consistency, client, requests) if traits.head_start.holds(endpoint.group.rank) else client


@dataclass(frozen=True, slots=True)
class _Shards:
    shards: int
    responses: ServedWeights
    division: Division

    def count(self, workers: int) -> int:
        return self.shards

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        return self.division.parts(layout, servers)

    def serve(self, agreement: Agreement, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """The rank of a server among the servers is its shard."""
        return ServerShard(agreement, endpoint, self.responses).live()


EXAMPLES = (Server(1), Server(3))
