"""An exchange among equals: one group, with its own servers if the topology has any."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.names import server
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint, Topology, WorkerEndpoint, server_count
from polyrhythm.core.strategy.companion import companion_scopes
from polyrhythm.core.strategy.plan import Level, Participants
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

_MOST_SERVERS = 100_000


@dataclass(frozen=True, slots=True)
class FlatPlan:
    """`topology` among the members of `participants`, who have agreed on the other pieces. Servers run where the network puts them."""

    agreement: Agreement
    topology: Topology
    participants: Participants

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names of the servers."""
        count = server_count(self.topology, len(self.participants.at_first))
        if count > _MOST_SERVERS:
            raise CompositionError(f"{count} servers are more than a run can hold: give at most {_MOST_SERVERS:,} shards or servers.")
        return tuple(server(self.participants.first_server + k) for k in range(count))

    @property
    def servers(self) -> Sequence[str | None]:
        """None for each server: the network decides where they run."""
        return [None] * len(self.server_names)

    @property
    def groups(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """The one group of all members."""
        return [(self.participants.name, self.participants.members)]

    @property
    def scopes(self) -> Sequence[str]:
        """The exchange's own topics, and those of the vectors that are mixed in addition to the weights."""
        return ["", *companion_scopes(self.agreement)]

    def levels(self, member: str) -> Sequence[Level]:
        """The single level of a flat exchange."""
        group = self.participants.group(member)

        def connect(port: Port) -> Channel:
            return self.topology.channel(self.agreement, WorkerEndpoint(group, self.server_names, port))

        return [Level(self.agreement, self.topology.traits.provides, group, connect)]

    def serve(self, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        names = self.server_names
        group = Group(f"{self.participants.name}servers", names, names.index(endpoint.port.name), self.participants.seed)
        service = self.topology.service
        assert service is not None, "only a served topology has servers"
        return service.serve(self.agreement, replace(endpoint, group=group, workers=self.participants.members))

    def result_actors(self) -> Sequence[str]:
        return self.topology.result.actors(self.participants.members, self.server_names)

    def held_by(self, layout: Layout) -> list[Layout]:
        """The layout of each result actor: servers hold a part each, workers the whole."""
        actors = self.result_actors()
        service = self.topology.service
        if service is None or actors[0] not in self.server_names:
            return [layout] * len(actors)
        return service.parts(layout, len(actors))

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        return self.topology.result.of(weights)
