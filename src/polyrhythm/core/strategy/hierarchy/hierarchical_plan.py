"""The plan of exchanges of two levels among given workers."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.topology import Channel, ServerEndpoint
from polyrhythm.core.strategy.hierarchy.across import Across
from polyrhythm.core.strategy.plan import INNER, OUTER, ExchangePlan, Level, Participants
from polyrhythm.core.tensors import Layout


@dataclass(frozen=True, slots=True)
class HierarchicalPlan:
    """`inner` has each group and its own exchange; `outer` the exchanges among groups, each for one range of the vector.

    `members` is the number of workers in all groups.
    """

    inner: tuple[tuple[Participants, ExchangePlan], ...]
    outer: tuple[ExchangePlan, ...]
    across: Across
    members: int

    @property
    def servers(self) -> Sequence[str | None]:
        """The servers of the groups, then those among groups."""
        return [near for plan in self._plans for near in plan.servers]

    @property
    def groups(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """The groups of both levels."""
        return [group for plan in self._plans for group in plan.groups]

    @property
    def scopes(self) -> Sequence[str]:
        """The prefixes of both levels."""
        inner = [INNER + scope for scope in self.inner[0][1].scopes]
        return inner + [OUTER + scope for scope in self.outer[0].scopes]

    @property
    def _plans(self) -> list[ExchangePlan]:
        return [plan for _, plan in self.inner] + list(self.outer)

    def levels(self, member: str) -> Sequence[Level]:
        """The levels of the member's group; then those of the member that exchanges with other groups for it."""
        own, plan = next((own, plan) for own, plan in self.inner if member in own.ranks)
        group = own.group(member)
        weight = len(own.members) * len(self.inner) / self.members
        stands = own.members[self.across.stands_for(group.rank)]
        inner = [replace(level, connect=_scoped(level, INNER)) for level in plan.levels(member)]
        outer = self.outer[self.across.plan_of(group.rank)].levels(stands)

        def connecting(level: Level) -> Level:
            def connect(port: Port) -> Channel:
                return self.across.connect(group, port, level.connect)

            return replace(level, connect=connect, weight=level.weight * weight)

        return [*inner, *(connecting(level) for level in outer)]

    def serve(self, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """Serve the exchange that the server belongs to."""
        for plan in self._plans:
            if endpoint.port.name in plan.server_names:
                scope = OUTER if plan in self.outer else INNER
                return plan.serve(replace(endpoint, port=endpoint.port.scoped(scope)))
        raise AssertionError(f"{endpoint.port.name} is in no plan")

    @property
    def server_names(self) -> Sequence[str]:
        """The names of the servers, of the groups and then among groups."""
        return [name for plan in self._plans for name in plan.server_names]

    def result_actors(self) -> Sequence[str]:
        """The result actors of the exchanges among groups; where these are workers, each has the whole, and one is enough."""
        plans = self.outer if self._served else self.outer[:1]
        return [actor for plan in plans for actor in plan.result_actors()]

    @property
    def _served(self) -> bool:
        """True if servers hold the weights on which groups agree."""
        return self.outer[0].result_actors()[0] in self.outer[0].server_names

    def held_by(self, layout: Layout) -> list[Layout]:
        """The layout of each result actor: servers hold parts of their range, workers the whole."""
        if not self._served:
            return [layout] * len(self.result_actors())
        ranges = self.across.split(layout, len(self.inner[0][0].members))
        return [held for plan, part in zip(self.outer, ranges, strict=True) for held in plan.held_by(part)]

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """The results of the exchanges among groups, range by range."""
        if not self._served:
            return self.outer[0].result(weights)
        parts, at = [], 0
        for plan in self.outer:
            count = len(plan.result_actors())
            parts.append(plan.result(weights[at : at + count]))
            at += count
        return torch.cat(parts)


def _scoped(level: Level, scope: str) -> Any:
    def connect(port: Port) -> Channel:
        return level.connect(port.scoped(scope))

    return connect
