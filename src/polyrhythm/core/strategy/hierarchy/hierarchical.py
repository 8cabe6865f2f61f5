"""Exchanges of two levels: members agree inside their group, and groups among themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from polyrhythm.core.catalogue import BySite
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.groups import Groups
from polyrhythm.core.protocols.merge import keeps_rates
from polyrhythm.core.protocols.topology import Agreement, Topology
from polyrhythm.core.protocols.traits import Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.strategy.check import require_piece
from polyrhythm.core.strategy.exchange import AnyExchange, Exchange
from polyrhythm.core.strategy.hierarchy.across import Across, Leaders
from polyrhythm.core.strategy.hierarchy.groups import groups_of
from polyrhythm.core.strategy.hierarchy.hierarchical_plan import HierarchicalPlan
from polyrhythm.core.strategy.hierarchy.mirrored_plan import MirroredPlan
from polyrhythm.core.strategy.hierarchy.relayed_plan import RelayedPlan
from polyrhythm.core.strategy.hierarchy.served_levels import refusal_of_mirrors, refusal_of_relays
from polyrhythm.core.strategy.plan import ExchangePlan, Participants
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Hierarchical:
    """`inner` within groups, `outer` among them: each group takes part in `outer` as one worker.

    `groups` forms them: "site", "host", a size, lists of ranks, or an object such as BySite(). `across` decides who exchanges with other
    groups: the group's leader (`Leaders`), or each member with a stripe of the vector (`Stripes`). Either exchange may be hierarchical
    itself. Within a group gradients are averaged before every step, or updates after several; then `outer` exchanges the group's gradient,
    update or weights. Groups of unequal sizes are weighted by size, unless `outer` exchanges weights: then sizes must be equal.

    If members exchange with servers, each group has its own servers, on the host of its first member. `outer` is then among these: they
    exchange updates as peers, with Mirrors() for instance, each with its own copy of the weights; or they push the sum of what a group's
    members have pushed to servers above them, which hold the weights: a tree of servers.

    Raises CompositionError if `outer` cannot exchange the result of `inner`.
    """

    inner: AnyExchange = field(default_factory=Exchange)
    outer: AnyExchange = field(default_factory=Exchange)
    groups: Groups | str | int | Sequence[Sequence[int]] = field(default_factory=BySite)
    across: Across = field(default_factory=Leaders)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", groups_of(self.groups))
        require_piece("exchange", self.inner, Exchange())
        require_piece("exchange", self.outer, Exchange())
        own = (
            self._chosen(),
            self._factors(),
            self._corrected_inside(),
            self._late(),
            self._averaged_outside(),
            self.across.refusal(self.outer),
        )
        for refusal in (*self._levels_apart(), *own):
            if refusal:
                raise CompositionError(refusal)

    def _levels_apart(self) -> tuple[str, ...]:
        """Reasons why the levels do not fit each other; empty texts where they do."""
        if self.relayed:
            return (refusal_of_relays(self.inner, self.outer),)
        if self.served:
            return (refusal_of_mirrors(self.outer),)
        return (self._unequal_members(), self._spent_gradients(), self._scaled_inside(), self._nothing_outside())

    def _unequal_members(self) -> str:
        if self.inner.order_matters or Capability.EQUAL_WEIGHTS not in self.inner.topology.traits.provides:
            return (
                f"inner={self.inner!r} does not leave a group's members with equal weights, so that none can exchange for "
                "all of them: take a collective topology, such as AllReduce(), in lockstep."
            )
        return ""

    def _spent_gradients(self) -> str:
        if not self.inner.agreement.payload.is_gradient and self.outer.agreement.payload.is_gradient:
            return (
                f"Inside groups {self.inner.agreement.payload.value} are exchanged, when the gradients are spent, and among groups "
                "gradients: take LocalSteps for the outer exchange too, or an inner one of gradients."
            )
        return ""

    def _late(self) -> str:
        if self.outer.topology.traits.late and self.outer.agreement.payload is Payload.UPDATE:
            return (
                f"Among groups {self.outer.topology!r} would respond to updates of an earlier step, and only a group's leader would know: "
                "take AllReduce() for the outer exchange, or exchange gradients."
            )
        if self.inner.topology.traits.late:
            return (
                f"Inside groups {self.inner.topology!r} would respond with gradients of an earlier step, and those of the last steps would "
                "be lost: use it for the outer exchange."
            )
        return ""

    def _corrected_inside(self) -> str:
        local = self.inner.agreement.local
        hooks = local.hooks
        if local.traits.averages or any(each is not None for each in (hooks.correct, hooks.settle, hooks.go_on)):
            return f"Inside groups {local!r} would correct steps that the outer exchange corrects too: give it to the outer exchange."
        return ""

    def _averaged_outside(self) -> str:
        if self.outer.agreement.local.traits.averages:
            return (
                f"{self.outer.agreement.local!r} averages over workers that exchange with each other, and members of groups do so through "
                "their group: take PlainSteps() or ResetMoments() for the outer exchange."
            )
        return ""

    def _chosen(self) -> str:
        if self.inner.agreement.consistency.traits.chooses or self.outer.agreement.consistency.traits.chooses:
            return "Workers that pass steps over are not drawn by groups: take SampledClients without a hierarchy, or LocalSteps."
        return ""

    def _nothing_outside(self) -> str:
        if self.outer.agreement.payload is Payload.NOTHING:
            return (
                f"Groups exchange what their members agree on, and with {self.outer.topology!r} nothing is exchanged: take another "
                "topology for the outer exchange."
            )
        return ""

    def _scaled_inside(self) -> str:
        if self.inner.agreement.payload.is_gradient and not keeps_rates(self.inner.agreement.merge, 2):
            return (
                f"Inside groups gradients are averaged, and {self.inner.agreement.merge!r} is no average: take Mean(), and "
                "give the merge to the outer exchange."
            )
        return ""

    def _factors(self) -> str:
        if Payload.FACTORS in {self.inner.agreement.payload, self.outer.agreement.payload}:
            return (
                "Factors multiply out to the gradient of one worker, and a group exchanges the mean of its members': exchange layers as "
                "factors among all workers, by selected=[(CheaperAsFactors(batch), Exchange(codec=SufficientFactors()))]."
            )
        return ""

    @property
    def served(self) -> bool:
        """True if groups have servers that exchange for them."""
        return Capability.SERVER in self.inner.topology.traits.provides

    @property
    def relayed(self) -> bool:
        """True if the groups' servers have servers above them."""
        return self.served and Capability.SERVER in self.outer.topology.traits.provides

    @property
    def pieces(self) -> Mapping[str, Any]:
        """The two exchanges, and the groups."""
        return {"inner": self.inner, "outer": self.outer, "groups": self.groups, "across": self.across}

    @property
    def agreement(self) -> Agreement:
        """The agreement of the exchange among groups."""
        return self.outer.agreement

    @property
    def topology(self) -> Topology:
        """The topology of the exchange among groups."""
        return self.outer.topology

    @property
    def order_matters(self) -> bool:
        """True if the order of arrival matters on one of the levels."""
        return self.inner.order_matters or self.outer.order_matters

    @property
    def tolerates_loss(self) -> bool:
        """False: a group's server gets its initial weights from the group's first worker, and groups wait for all of theirs."""
        return False

    @property
    def tolerates_server_loss(self) -> bool:
        """False: the levels are not notified of lost servers."""
        return False

    @property
    def levels(self) -> tuple[Exchange, ...]:
        """Those of the exchange within groups, and of that among them."""
        return (*self.inner.levels, *self.outer.levels)

    @property
    def ends_alike(self) -> bool:
        """True if the outer exchange ends alike, unless servers are mirrors, which differ by what was not sent."""
        return self.outer.ends_alike and (self.relayed or not self.served)

    def with_pieces(self, pieces: Mapping[str, Any]) -> Hierarchical:
        """The same hierarchy with some pieces of the exchange among groups replaced."""
        return replace(self, outer=self.outer.with_pieces(pieces))

    def workers(self, available: int) -> int:
        return available

    def check(self, workers: int) -> None:
        """The sizes of groups are checked in `among`, where the workers' places are known."""

    def among(self, participants: Participants) -> ExchangePlan:
        """The plan of the exchanges within and among the groups of `participants`."""
        divide, seed = groups_of(self.groups).divide, participants.seed
        groups, at_first = divide(participants.locations), divide(participants.at_first)
        if self.served and participants.began:
            groups = self._with_their_servers(participants, at_first)
        numbered = [(number, ranks) for number, ranks in enumerate(groups) if ranks]
        self.outer.check(len(numbered))
        self._refuse_unequal(sorted({len(ranks) for _, ranks in numbered}))
        inner = list[tuple[Participants, ExchangePlan]]()
        first, servers = participants.first_server, 0
        for number, ranks in numbered:
            self.inner.check(len(ranks))
            members = tuple(participants.members[rank] for rank in ranks)
            places = tuple(participants.locations[rank] for rank in ranks)
            began = tuple(participants.at_first[rank] for rank in at_first[min(number, len(at_first) - 1)])
            own = Participants(f"{participants.name}g{number}", members, places, seed, first + number * servers, began)
            plan = self.inner.among(own)
            if number and not servers and plan.servers:  # the groups before it are empty now, and their servers have the first numbers
                own = replace(own, first_server=first + number * len(plan.servers))
                plan = self.inner.among(own)
            servers = len(plan.servers)
            inner.append((own, plan))
        first += servers * max(len(groups), len(at_first))  # also those of groups that are empty now
        leading = tuple(participants.at_first[ranks[0]] for ranks in at_first)
        participants = replace(participants, first_server=first, began=leading)
        if self.served:
            among = tuple(self._among_servers(inner, participants))
            return RelayedPlan(tuple(inner), among) if self.relayed else MirroredPlan(tuple(inner), among, participants.members)
        outer = self.across.plans(self.outer, [own for own, _ in inner], participants)
        return HierarchicalPlan(tuple(inner), tuple(outer), self.across, len(participants.members))

    def _with_their_servers(self, participants: Participants, at_first: Sequence[Sequence[int]]) -> list[list[int]]:
        """The ranks of each group that had workers when the run began, and so has servers; some may be empty now.

        A worker stays with its servers, which know what they have of it: those with whom the run began in their groups, and one that came
        later where it would have been then; if that is a group of its own, in one by its number.
        """
        divide, began = groups_of(self.groups).divide, len(participants.at_first)
        group_of = {rank: number for number, ranks in enumerate(at_first) for rank in ranks}
        having: list[list[int]] = [[] for _ in at_first]
        for rank, (name, location) in enumerate(zip(participants.members, participants.locations, strict=True)):
            number = group_of.get(rank_of(name))
            if number is None:
                number = next(k for k, ranks in enumerate(divide((*participants.at_first, location))) if began in ranks)
            having[number if number < len(having) else rank_of(name) % len(having)].append(rank)
        return having

    def _refuse_unequal(self, sizes: Sequence[int]) -> None:
        """Raise CompositionError for groups of unequal sizes that exchange weights, which cannot be multiplied by the size."""
        if self.outer.agreement.payload is Payload.WEIGHTS and len(sizes) > 1:
            raise CompositionError(
                f"Groups of unequal sizes, {', '.join(map(str, sizes))} members, count by their sizes, and under {self.outer!r} they "
                "exchange their weights as they are: take groups of equal size, or an outer exchange of updates, such as LocalSteps over "
                "AllReduce()."
            )

    def _among_servers(self, inner: Sequence[tuple[Participants, ExchangePlan]], participants: Participants) -> list[ExchangePlan]:
        """For each shard, the plan of the exchange among its servers."""
        names = [plan.server_names for _, plan in inner]
        locations = tuple(own.locations[0] for own, _ in inner)
        plans, first = list[ExchangePlan](), participants.first_server
        for shard in range(len(names[0])):
            members = tuple(each[shard] for each in names)
            own = Participants(f"{participants.name}mirrors{shard}", members, locations, participants.seed, first, participants.began)
            plans.append(self.outer.among(own))
            first += len(plans[-1].servers)
        return plans
