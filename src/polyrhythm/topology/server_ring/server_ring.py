"""A parameter server: parts of the weights on a ring of servers, each with copies on those after it, and workers that do not wait."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.division import Division
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.served_weights import ServedWeights
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint, ServerSide, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import SERVED
from polyrhythm.topology.server_ring.delayed_client import DelayedClient
from polyrhythm.topology.server_ring.hash_ring import HashRing
from polyrhythm.topology.server_ring.led_part import RoleSettings
from polyrhythm.topology.server_ring.ring_channel import RingChannel
from polyrhythm.topology.server_ring.ring_link import RingLink
from polyrhythm.topology.server_ring.ring_server import RingServer
from polyrhythm.topology.servers.held_client import HeldClient
from polyrhythm.topology.servers.served_weights import AllWeights
from polyrhythm.topology.servers.server_requests import ServerRequests

_LISTS = 64


@dataclass(frozen=True, slots=True, repr=False)
@checked
class ServerRing:
    """The weights in a part for each of `servers`, of which the next `replicas` servers have copies (Li et al., OSDI 2014).

    Gradients go to a part's primary. Where the consistency merges those of all workers at once, they are gathered by steps. What is
    merged goes down the chain of replicas as one aggregate, and only then do workers get responses: a lost server is followed by the next,
    to which workers send again what it had not merged, and no push is merged twice. As many servers of a part may be lost as it has
    replicas, and none comes back. Workers wait for responses only as the consistency has it: `BoundedDelay`. Lists of keys are sent once,
    and then as a hash, of which a server remembers `lists`; it asks for those that it does not know. With 0, they are always sent.
    """

    result: ClassVar = FirstWorker()

    servers: int = 1
    replicas: int = 0
    division: Division = field(default_factory=HashRing)
    responses: ServedWeights = field(default_factory=AllWeights)
    lists: int = _LISTS

    def __post_init__(self) -> None:
        if not (self.servers >= 1 and 0 <= self.replicas < self.servers and self.lists >= 0):
            raise CompositionError(
                f"{self!r} cannot be: give 1 server or more, fewer replicas than servers, as each is on another one, and at least 0 lists."
            )

    def __repr__(self) -> str:
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        usual = {"division": HashRing(), "responses": AllWeights(), "lists": _LISTS}
        shown = ", ".join(f"{name}={value!r}" for name, value in settings.items() if name not in usual or value != usual[name])
        return f"ServerRing({shown})"

    @property
    def traits(self) -> TopologyTraits:
        """Gradients; servers may be lost where others have copies."""
        return TopologyTraits(frozenset({Payload.GRADIENT, Payload.ROWS}), "with a server", SERVED, spare_servers=self.replicas)

    def workers(self, available: int) -> int:
        return available

    @property
    def service(self) -> ServerSide:
        return _Ring(self)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        requests, rule = ServerRequests(agreement, endpoint, self.responses, self.division), agreement.consistency
        client = DelayedClient(agreement, requests)
        holds = rule.traits.head_start.holds(endpoint.group.rank)
        link = RingLink(endpoint, requests, self.replicas, self.lists)
        return RingChannel(HeldClient(rule, client, requests) if holds else client, requests, link)


@dataclass(frozen=True, slots=True)
class _Ring:
    ring: ServerRing

    def count(self, workers: int) -> int:
        return self.ring.servers

    def parts(self, layout: Layout, servers: int) -> list[Layout]:
        return self.ring.division.parts(layout, servers)

    def serve(self, agreement: Agreement, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        settings = RoleSettings(agreement, self.ring.responses, self.ring.lists)
        return RingServer(settings, endpoint, self.ring.replicas).live()


EXAMPLES = (ServerRing(2, replicas=1),)
