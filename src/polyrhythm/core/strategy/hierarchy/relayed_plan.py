"""The plan of a tree of servers: members push to their group's servers, and these push their sums to servers above."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.topology import Channel, ServerEndpoint
from polyrhythm.core.strategy.hierarchy.relay import Relaying
from polyrhythm.core.strategy.plan import ExchangePlan, Level, Participants
from polyrhythm.core.tensors import Layout

_ABOVE = "above/"


@dataclass(frozen=True, slots=True)
class RelayedPlan:
    """`inner` has each group and its own exchange, with equally many servers; `outer` one exchange for each shard, with servers above."""

    inner: tuple[tuple[Participants, ExchangePlan], ...]
    outer: tuple[ExchangePlan, ...]

    @property
    def servers(self) -> Sequence[str | None]:
        """A group's servers run where its first member does; those above where the network decides."""
        return [own.first for own, plan in self.inner for _ in plan.servers] + [None for plan in self.outer for _ in plan.servers]

    @property
    def server_names(self) -> Sequence[str]:
        """The names of the servers, group by group, then of those above."""
        return [name for plan in (*self._groups, *self.outer) for name in plan.server_names]

    @property
    def _groups(self) -> list[ExchangePlan]:
        return [plan for _, plan in self.inner]

    @property
    def groups(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """No sums are requested over these groups."""
        return []

    @property
    def scopes(self) -> Sequence[str]:
        """The prefixes of both levels."""
        return ["", *(_ABOVE + scope for scope in self.outer[0].scopes)]

    def levels(self, member: str) -> Sequence[Level]:
        """The member's exchange with the servers of its group."""
        return next(plan for own, plan in self.inner if member in own.ranks).levels(member)

    def serve(self, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """Serve the group's exchange, with the servers above upstream; or an exchange above."""
        name = endpoint.port.name
        for plan in self.outer:
            if name in plan.server_names:
                return plan.serve(replace(endpoint, port=endpoint.port.scoped(_ABOVE)))
        own, plan = next((own, plan) for own, plan in self.inner if name in plan.server_names)
        (level,) = self.outer[list(plan.server_names).index(name)].levels(name)
        weight = level.weight * len(own.members) * len(self.inner) / sum(len(each.members) for each, _ in self.inner)

        def connect(port: Port) -> Channel:
            return level.connect(port.scoped(_ABOVE))

        return plan.serve(replace(endpoint, upstream=Relaying(level.agreement, connect, level.group, own.members, weight)))

    def result_actors(self) -> Sequence[str]:
        """The servers above, which hold the weights."""
        return [actor for plan in self.outer for actor in plan.result_actors()]

    def held_by(self, layout: Layout) -> list[Layout]:
        """The layout of each server above: its part of the part of a group's server."""
        parts = self.inner[0][1].held_by(layout)
        return [held for plan, part in zip(self.outer, parts, strict=True) for held in plan.held_by(part)]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """The parts of the servers above, end to end."""
        parts, at = [], 0
        for plan in self.outer:
            count = len(plan.result_actors())
            parts.append(plan.result(weights[at : at + count]))
            at += count
        return self.inner[0][1].result(parts)
