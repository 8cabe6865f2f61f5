"""The members of a group that exchange with other groups: the leader, or all members with a stripe each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.topology import Channel
from polyrhythm.core.strategy.exchange import AnyExchange
from polyrhythm.core.strategy.hierarchy.leaders import LeaderChannel, StripeChannel
from polyrhythm.core.strategy.plan import INNER, OUTER, ExchangePlan, Participants
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

Connect = Callable[[Port], Channel]


class Across(Protocol):
    """A choice of the members that exchange for a group. Settings are frozen."""

    def refusal(self, outer: AnyExchange) -> str:
        """The reason why it cannot be used with an exchange, as a sentence; empty where it can."""

    def plans(self, outer: AnyExchange, groups: Sequence[Participants], participants: Participants) -> list[ExchangePlan]:
        """The exchanges among `groups`: each among one member of each of them. Servers are numbered from the first of `participants`."""

    def plan_of(self, rank: int) -> int:
        """The index in `plans` of the exchange of the member of `rank`, or of the member that stands for it."""

    def stands_for(self, rank: int) -> int:
        """The rank, within a group, of the member whose side of an exchange the member of `rank` shares."""

    def connect(self, group: Group, port: Port, outer: Connect) -> Channel:
        """A member's channel; `outer` connects the member that stands for it to other groups."""

    def split(self, layout: Layout, members: int) -> list[Layout]:
        """The ranges of the vector, one for each plan, of a group with so many members."""


def across_groups(groups: Sequence[Participants], rank: int, name: str, participants: Participants, first: int) -> Participants:
    """The members of `rank` of all groups, as participants with the name `name`; their first server has the number `first`."""
    members = tuple(group.members[rank] for group in groups)
    return Participants(name, members, tuple(group.locations[rank] for group in groups), groups[0].seed, first, participants.began)


@dataclass(frozen=True, slots=True)
class Leaders:
    """A group's first member exchanges for all, and broadcasts the response: between G groups 2 (G - 1) / G of the model each way."""

    def refusal(self, outer: AnyExchange) -> str:
        """Empty: any exchange can be used."""
        return ""

    def plans(self, outer: AnyExchange, groups: Sequence[Participants], participants: Participants) -> list[ExchangePlan]:
        """One exchange, among the leaders."""
        return [outer.among(across_groups(groups, 0, f"{participants.name}leaders", participants, participants.first_server))]

    def plan_of(self, rank: int) -> int:
        return 0

    def stands_for(self, rank: int) -> int:
        """The leader stands for all members."""
        return 0

    def connect(self, group: Group, port: Port, outer: Connect) -> Channel:
        """The leader connects, and the others wait for what it broadcasts."""
        return LeaderChannel(group, port.scoped(INNER), outer(port.scoped(OUTER)) if group.is_first else None)

    def split(self, layout: Layout, members: int) -> list[Layout]:
        return [layout]


@dataclass(frozen=True, slots=True)
class Stripes:
    """Each member exchanges one stripe, a range of rows, with its counterparts in the other groups, and the group gathers the stripes.

    A group's traffic is spread over the lines of all members, instead of its leader's alone. Groups must have equal sizes.
    """

    def refusal(self, outer: AnyExchange) -> str:
        """Refuses stripes that are merged in different orders, and those combined by their own content: they would not fit together."""
        if outer.order_matters:
            return (
                f"across=Stripes() joins the stripes of one exchange, and under {outer!r} each stripe would be of another: "
                "take Leaders(), or an outer exchange in lockstep."
            )
        if Capability.SUMS not in outer.topology.traits.provides:
            return (
                f"across=Stripes() cuts tensors, and {outer.topology!r} combines each by what the whole of it is: take Leaders(), or a "
                "topology of sums for the outer exchange, such as AllReduce()."
            )
        return ""

    def plans(self, outer: AnyExchange, groups: Sequence[Participants], participants: Participants) -> list[ExchangePlan]:
        """One exchange for each rank. Raises CompositionError where groups differ in size."""
        sizes = {len(group.members) for group in groups}
        if len(sizes) > 1:
            raise CompositionError(
                f"across=Stripes() needs groups of equal size, and these have {', '.join(map(str, sorted(sizes)))} members: "
                "use Leaders(), or other groups."
            )
        plans, first = list[ExchangePlan](), participants.first_server
        for rank in range(sizes.pop()):
            plans.append(outer.among(across_groups(groups, rank, f"{participants.name}stripe{rank}", participants, first)))
            first += len(plans[-1].servers)
        return plans

    def plan_of(self, rank: int) -> int:
        return rank

    def stands_for(self, rank: int) -> int:
        """Each member stands for itself."""
        return rank

    def connect(self, group: Group, port: Port, outer: Connect) -> Channel:
        return StripeChannel(group, port.scoped(INNER), outer(port.scoped(OUTER)))

    def split(self, layout: Layout, members: int) -> list[Layout]:
        """As many stripes as there are members."""
        return layout.split(members)
