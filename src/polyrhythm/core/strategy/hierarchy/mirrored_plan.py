"""The plan of servers of groups that mirror each other: members exchange with their group's servers, and these among themselves."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.topology import PeerChannel, ServerEndpoint
from polyrhythm.core.strategy.hierarchy.mirror import Mirroring
from polyrhythm.core.strategy.plan import ExchangePlan, Level, Participants
from polyrhythm.core.tensors import Layout


@dataclass(frozen=True, slots=True)
class MirroredPlan:
    """`inner` has each group and its own exchange, with equally many servers; `outer` one exchange for each shard, among its servers.

    `members` are all workers.
    """

    inner: tuple[tuple[Participants, ExchangePlan], ...]
    outer: tuple[ExchangePlan, ...]
    members: tuple[str, ...]

    @property
    def servers(self) -> Sequence[str | None]:
        """A group's servers run where its first member does."""
        return [own.first for own, plan in self.inner for _ in plan.servers]

    @property
    def server_names(self) -> Sequence[str]:
        """The names of the servers, group by group."""
        return [name for _, plan in self.inner for name in plan.server_names]

    @property
    def groups(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """No sums are requested over these groups."""
        return []

    @property
    def scopes(self) -> Sequence[str]:
        """The prefixes of both levels."""
        return ["", *("mirror/" + scope for scope in self.outer[0].scopes)]

    def levels(self, member: str) -> Sequence[Level]:
        """The member's exchange with the servers of its group."""
        return next(plan for own, plan in self.inner if member in own.members).levels(member)

    def serve(self, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """Serve the group's exchange, with the other groups' servers upstream."""
        name = endpoint.port.name
        plan = next(plan for _, plan in self.inner if name in plan.server_names)
        (level,) = self.outer[list(plan.server_names).index(name)].levels(name)

        def connect(port: Port) -> PeerChannel:
            return cast(PeerChannel, level.connect(port.scoped("mirror/")))  # the pattern of the outer topology was checked

        return plan.serve(replace(endpoint, upstream=Mirroring(level.agreement, connect, self.members)))

    def result_actors(self) -> Sequence[str]:
        """The servers of the first group, whose weights are nearly those of all."""
        return self.inner[0][1].result_actors()

    def held_by(self, layout: Layout) -> list[Layout]:
        return self.inner[0][1].held_by(layout)

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """The first group's shards, end to end."""
        return self.inner[0][1].result(weights)
