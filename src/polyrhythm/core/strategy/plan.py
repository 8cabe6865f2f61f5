"""The plan of an exchange: who exchanges with whom in one run, once the workers are known.

`Exchange.among` and `Hierarchical.among` make the plans of workers, servers and their groups; parts, services and evaluation use them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint
from polyrhythm.core.tensors import Layout

INNER, OUTER = "inner/", "outer/"
"""Prefixes of the topics of the two levels of an exchange."""


@dataclass(frozen=True)
class Participants:
    """The actors of an exchange, in the order of ranks, and the location of each of them.

    `name` distinguishes the groups of one run. `first_server` is the number of the first server that the exchange may have. `began` are
    the locations with which the run began, where its workers have changed since: servers are as many, and have the same numbers, as then.
    """

    name: str
    members: tuple[str, ...]
    locations: tuple[Location, ...]
    seed: int
    first_server: int = 0
    began: tuple[Location, ...] = ()

    @property
    def at_first(self) -> tuple[Location, ...]:
        """The locations with which the run began."""
        return self.began or self.locations

    def group(self, member: str) -> Group:
        """The group as `member` sees it."""
        return Group(self.name, self.members, self.ranks[member], self.seed)

    @property
    def first(self) -> str:
        """The member of rank 0."""
        return self.members[0]

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of each member, cached: each of thousands of workers looks up its own."""
        return {member: rank for rank, member in enumerate(self.members)}


@dataclass(frozen=True, slots=True)
class Level:
    """A member's side of one level of an exchange: its group, what the topology provides, and the agreement of the pieces.

    `connect` makes the member's channel over a port. `weight` multiplies the values that the member sends: members that stand for groups of
    unequal sizes count by these.
    """

    agreement: Agreement
    provides: frozenset[Capability]
    group: Group
    connect: Callable[[Port], Channel]
    weight: float = 1.0


class ExchangePlan(Protocol):
    """The plan of one exchange among given actors."""

    @property
    def servers(self) -> Sequence[str | None]:
        """For each server that it needs, the member on whose host it should run, or None where the network decides."""

    @property
    def server_names(self) -> Sequence[str]:
        """The names of these servers, in the same order."""

    @property
    def groups(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """The names and members of the groups over which sums are requested."""

    def levels(self, member: str) -> Sequence[Level]:
        """A member's sides, the innermost first: the result of an inner exchange is what the group sends in the next."""

    @property
    def scopes(self) -> Sequence[str]:
        """The prefixes of the topics of its exchanges."""

    def serve(self, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """Run one server until its end; the plan sets the group and the workers of `endpoint`."""

    def result_actors(self) -> Sequence[str]:
        """The actors whose weights make up the result at any moment."""

    def held_by(self, layout: Layout) -> list[Layout]:
        """The layout of the part of a vector of `layout` that each of `result_actors` holds."""

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """The result (numel,) from the weights of `result_actors`, in their order; servers' parts are joined as `held_by` divides them."""
