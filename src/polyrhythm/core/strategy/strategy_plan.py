"""The plan of a strategy among the workers of one run: who exchanges what with whom, and which servers there are.

`training` makes it when the workers' locations are known; replicas, services and the evaluation read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polyrhythm.core.kernel.crew import BatchRule
from polyrhythm.core.kernel.group import Group, workers
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.mesh import FLAT, MeshShape, WorkerMesh
from polyrhythm.core.kernel.names import is_worker, rank_of
from polyrhythm.core.protocols.selection import Selection
from polyrhythm.core.strategy.exchange import AnyExchange
from polyrhythm.core.strategy.plan import ExchangePlan, Participants
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
class PlannedExchange:
    """One of a strategy's exchanges, its `number`, and the selection of its parameters (None: all that no other exchange takes).

    `plan` is that among workers that differ in `axes` of the mesh only: those that have replicas of these parameters, the
    `participants`. `first` is the number of its first server. `part` is the number of the part of the model, where a
    worker may hold several: its parameters are those that are noted to be of that part.
    """

    number: int
    selection: Selection | None
    exchange: AnyExchange
    axes: tuple[str, ...]
    plan: ExchangePlan
    first: int
    participants: Participants
    part: int | None = None

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of the exchange's servers."""
        return tuple(self.plan.server_names)

    def scope(self, attached: int, kind: int) -> str:
        """The topics' prefix for parameters of the `attached`-th optimizer, of the `kind`-th type and device in this exchange.

        The very first has none, so that a run of one exchange has the shortest topics.
        """
        part = "" if self.part is None else f"part{self.part}/"
        if self.number or kind:
            return f"{part}{attached}.{self.number}.{kind}/"
        return f"{part}{attached}/" if attached else part


@dataclass(frozen=True, slots=True)
class StrategyPlan:
    """The exchanges of `strategy` among the workers of the run, which are on `mesh`.

    A model in parts has the same exchanges once for each part, among the workers that hold it: `exchanges` are those of one part, the first
    if nobody asks for another (`at`), and `of_parts` has them for every one. Servers and groups are those of all.

    The run began with `first` workers, at the locations `began`, by which it has its servers, all of which are `everyone`; `batch` is what
    stays equal when the number of workers changes, and `lost` are the servers without which the run continues.
    """

    strategy: Strategy
    mesh: WorkerMesh
    exchanges: tuple[PlannedExchange, ...]
    began: tuple[Location, ...]
    everyone: tuple[str, ...]
    batch: BatchRule = BatchRule.WORKER
    first: int = 0
    lost: tuple[str, ...] = ()
    of_parts: tuple[tuple[PlannedExchange, ...], ...] = ()

    @staticmethod
    def of(
        strategy: Strategy,
        locations: Sequence[Location],
        seed: int,
        members: Sequence[str] = (),
        before: StrategyPlan | None = None,
        shape: MeshShape = FLAT,
    ) -> StrategyPlan:
        """The plan for as many of the located workers as the strategy uses; these are `members`, where they have other names than at first.

        `before` is a plan of the same run, `shape` that of its mesh. Raises CompositionError where the exchanges do not fit the workers.
        """
        used = shape.workers(strategy.workers, len(locations))
        mesh = shape.mesh(tuple(members)[:used] or workers(used), seed)
        parts = mesh.parts
        strategy.check(parts[0].size)
        began = () if before is None else before.began
        first, of_parts = 0, list[tuple[PlannedExchange, ...]]()
        for number, group in enumerate(parts):
            earlier = () if before is None else before.of_parts[number]
            of_parts.append(_planned(strategy, _Part(number, group, tuple(locations), first, began, earlier), mesh))
            first += sum(len(each.servers) for each in of_parts[-1])
        servers = tuple(name for part in of_parts for each in part for name in each.servers)
        began, servers = began or tuple(locations[:used]), before.everyone if before else servers
        return StrategyPlan(strategy, mesh, of_parts[0], began, servers, first=used, of_parts=tuple(of_parts))

    def at(self, member: str) -> StrategyPlan:
        """The plan as `member` sees it: its exchanges are those of its parts of the model, of which it has one as a rule."""
        if len(self.of_parts) < 2:
            return self
        return replace(self, exchanges=tuple(each for part in self.mesh.parts_of(member) for each in self.of_parts[part]))

    def changed(self, members: Sequence[str], locations: Sequence[Location], lost: Sequence[str] = ()) -> StrategyPlan:
        """The plan for other workers, where these servers are lost. Raises CompositionError where the strategy does not fit them."""
        if self.mesh.cut:  # each exchanges with nobody along the axis on which workers are lost
            return replace(self, mesh=self.mesh.without(members), lost=tuple(lost))
        if (used := self.strategy.workers(len(members))) < len(members):
            raise CompositionError(
                f"{self.strategy.name} uses {used} of {len(members)} workers, and each of a crew that changes must be used: choose least "
                "and most so that all numbers between them fit, or a strategy for any number."
            )
        return replace(
            StrategyPlan.of(self.strategy, locations, self.mesh.seed, members, self), batch=self.batch, first=self.first, lost=tuple(lost)
        )

    def essential(self, actor: str) -> bool:
        """True if the run cannot continue without `actor`: servers without copies, the replica with the result, and awaited workers."""
        if not is_worker(actor):
            return not self.strategy.tolerates_server_loss
        return not self.strategy.tolerates_loss or actor in self.mesh.replica(self.mesh.first).members

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of all servers."""
        return tuple(name for each in self._all for name in each.servers)

    @property
    def idle(self) -> tuple[str, ...]:
        """The names of servers that no worker needs at present."""
        return tuple(name for name in self.everyone if name not in self.servers)

    @property
    def colocated(self) -> tuple[int | None, ...]:
        """For each server, the rank of the worker on whose host it should run; None where the network decides."""
        return tuple(None if near is None else rank_of(near) for each in self._all for near in each.plan.servers)

    @property
    def groups(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The groups, other than that of all workers, over which sums are requested."""
        found = {name: members for each in self._all for name, members in each.plan.groups if members != self.mesh.members}
        return tuple(found.items())

    @property
    def _all(self) -> Sequence[PlannedExchange]:
        return [each for part in self.of_parts for each in part]

    def served_by(self, name: str) -> PlannedExchange:
        """The exchange of the server `name`."""
        for each in self._all:
            if name in each.servers:
                return each
        raise CompositionError(f"{name} is not a server of this run, which has {', '.join(self.servers) or 'none'}.")


@dataclass(frozen=True, slots=True)
class _Part:
    """The workers `group` that hold the part of that `number`, of those at `locations`; its servers have the numbers from `first` on."""

    number: int
    group: Group
    locations: tuple[Location, ...]
    first: int
    began: tuple[Location, ...]
    earlier: tuple[PlannedExchange, ...]


def _planned(strategy: Strategy, part: _Part, mesh: WorkerMesh) -> tuple[PlannedExchange, ...]:
    """The exchanges among the workers of one part."""
    planned, first = list[PlannedExchange](), part.first
    ranks = [mesh.members.index(member) for member in part.group.members]
    here = tuple(part.locations[rank] for rank in ranks)
    for number, (selection, exchange) in enumerate(strategy.exchanges):
        first = part.earlier[number].first if part.earlier else first
        participants = Participants(part.group.name, part.group.members, here, mesh.seed, first, part.began)
        plan, part_of_several = exchange.among(participants), None if mesh.unequal is None else part.number
        planned.append(PlannedExchange(number, selection, exchange, mesh.replicated, plan, first, participants, part_of_several))
        first += len(planned[-1].plan.servers)
    return tuple(planned)
