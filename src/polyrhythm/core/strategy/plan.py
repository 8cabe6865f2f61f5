"""Who exchanges with whom in one run: what an exchange becomes when its workers are known."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Location
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerEndpoint
from polyrhythm.core.protocols.traits import Pattern
from polyrhythm.core.tensors import Layout

INNER, OUTER = "inner/", "outer/"
"""What the topics of the two levels of an exchange begin with."""


@dataclass(frozen=True)
class Crew:
    """The actors that an exchange is among, in the order of ranks, and where each of them is.

    `name` distinguishes the groups of one run. `first_server` is the number of the first server that the exchange may have.
    """

    name: str
    members: tuple[str, ...]
    locations: tuple[Location, ...]
    seed: int
    first_server: int = 0

    def group(self, member: str) -> Group:
        """The group as `member` sees it."""
        return Group(self.name, self.members, self.ranks[member], self.seed)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of each member, cached: each of thousands of workers looks up its own."""
        return {member: rank for rank, member in enumerate(self.members)}


@dataclass(frozen=True, slots=True)
class Level:
    """A member's side of an exchange with those it exchanges with, and what the pieces of that exchange have agreed on.

    `connect` makes the member's channel over a port. `weight` multiplies what the member sends: members that stand for groups of unequal
    sizes count by these.
    """

    agreement: Agreement
    pattern: Pattern
    group: Group
    connect: Callable[[Port], Channel]
    weight: float = 1.0


class ExchangePlan(Protocol):
    """One exchange among given actors."""

    @property
    def servers(self) -> Sequence[str | None]:
        """For each server that it needs, the member beside which it should run, or None where the network decides."""

    @property
    def server_names(self) -> Sequence[str]:
        """What these servers are called."""

    @property
    def groups(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """The names and members of the groups over which sums are requested."""

    def levels(self, member: str) -> Sequence[Level]:
        """A member's sides, the innermost first: what an inner exchange makes of a group's contributions goes on to the next."""

    @property
    def scopes(self) -> Sequence[str]:
        """What the topics of its exchanges begin with."""

    def serve(self, endpoint: ServerEndpoint) -> Coroutine[Effect[Any], Any, None]:
        """A server's whole life; of `endpoint` the port, the recorder and the snapshots count."""

    def result_actors(self) -> list[str]:
        """The actors whose weights make up the result at any moment."""

    def held_by(self, layout: Layout) -> list[Layout]:
        """What each of `result_actors` holds of a vector of `layout`."""

    def result(self, weights: Sequence[Tensor]) -> Tensor:
        """The result (numel,) from the weights of `result_actors`, in their order; what servers hold, end to end as in `held_by`."""
