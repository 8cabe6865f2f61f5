"""The workers of a run on named axes: which of them are replicas of each other, and which hold the parts of one model.

A strategy's plan has one; its consumers ask it for the group that they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

from polyrhythm.core.kernel.coordinates import Coordinates, FullGrid, RankGrid
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.replica_sums import ReplicaSums
from polyrhythm.core.kernel.unequal_axis import UnequalAxis
from polyrhythm.core.kernel.view import View
from polyrhythm.errors import CompositionError

DATA = "data"
"""The axis of replicas of a mesh that has no other."""


@dataclass(frozen=True, slots=True)
class MeshShape:
    """The `axes` of a run's mesh with their sizes, the outermost first, or none for a flat one; `data` and `sharded` are as in the mesh.

    Along the axes `uneven` replicas do unequal shares of each step, which make one gradient when they are added up. If it `loses`, workers
    may be lost: those that are left do their work. Along `unequal` each replica is divided in its own way.
    """

    axes: tuple[tuple[str, int], ...] = ()
    data: tuple[str, ...] = (DATA,)
    sharded: tuple[str, ...] = ()
    uneven: tuple[str, ...] = ()
    loses: bool = False
    unequal: UnequalAxis | None = None

    @property
    def flat(self) -> bool:
        """True if every worker has a replica of the whole model, however many workers there are."""
        return not self.axes

    @property
    def whole(self) -> bool:
        """True if no axis has the parts of a model."""
        return all(name in self.data and name not in self.sharded for name, size in self.axes if size > 1)

    def workers(self, used: Callable[[int], int], available: int) -> int:
        """The number of workers on the mesh, of the `available` ones; `used` are those that a strategy uses of replicas.

        Raises CompositionError where the strategy does not use all replicas of the mesh.
        """
        if self.flat:
            return used(available)
        replicas = prod(size for name, size in self.axes if name in self.data and name not in self.sharded)
        if used(replicas) != replicas:
            raise CompositionError(
                f"The strategy uses {used(replicas)} of the {replicas} replicas that the mesh has: give its data axes sizes that it uses."
            )
        return _grid(self.axes, self.data, self.unequal).size

    def mesh(self, members: Sequence[str], seed: int) -> WorkerMesh:
        """The mesh of these workers."""
        if self.flat:
            return WorkerMesh.flat(members, seed)
        return WorkerMesh(self.axes, tuple(members), seed, self.data, self.sharded, unequal=self.unequal)


FLAT = MeshShape()


@dataclass(frozen=True)
class WorkerMesh:
    """Named axes, each with its size, over the `members`: their ranks are coordinates in row-major order, the last axis the fastest.

    Along the axes `data` workers compute on different samples, and have replicas of what they hold, unless the axis is `sharded` too: there
    are the parts of one model, as along the axes that are not `data`. `seed` is the run's. Where a model is in parts, some members may be
    `absent`: the others keep their coordinates. Along the axis `unequal` each replica has as many coordinates as it says, of which the size
    is the largest number. Raises CompositionError for axes that do not fit the members.

    Examples:
        >>> mesh = WorkerMesh((("data", 2), ("stage", 2)), ("worker/0", "worker/1", "worker/2", "worker/3"))
        >>> mesh.group("worker/3", "data")
        Group(name='data@1', members=('worker/1', 'worker/3'), rank=1, seed=0)
    """

    axes: tuple[tuple[str, int], ...]
    members: tuple[str, ...]
    seed: int = 0
    data: tuple[str, ...] = (DATA,)
    sharded: tuple[str, ...] = ()
    absent: frozenset[str] = frozenset()
    unequal: UnequalAxis | None = None

    def __post_init__(self) -> None:
        given = f"WorkerMesh(axes={self.axes!r})"
        for name, size in self.axes:
            if not name.isidentifier():
                raise CompositionError(
                    f"{given} has an axis {name!r}, and names of groups are made of the axes': give it a name of letters."
                )
            if size < 1:
                raise CompositionError(f"{given} has {size} coordinates in {name!r}: give each axis 1 or more, or leave it out.")
        if len(set(self.names)) < len(self.axes):
            raise CompositionError(f"{given} has an axis twice, and an axis is found by its name: give each a different one.")
        if self.unequal is not None and (refused := self.unequal.refusal(self.axes, self.data, self.sharded)):
            raise CompositionError(f"{given} {refused}")
        if self._grid.size != len(self.members):
            raise CompositionError(
                f"{given} is for {self._grid.size} workers, and there are {len(self.members)}: choose sizes whose product is their number."
            )

    @staticmethod
    def flat(workers: Sequence[str], seed: int = 0) -> WorkerMesh:
        """The mesh of one axis: every worker has a replica of the whole model."""
        return WorkerMesh(((DATA, len(workers)),), tuple(workers), seed)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(name for name, _ in self.axes)

    @property
    def cut(self) -> tuple[str, ...]:
        """The axes along which are the parts of a model."""
        return tuple(name for name, size in self.axes if size > 1 and (name not in self.data or name in self.sharded))

    @property
    def replicated(self) -> tuple[str, ...]:
        """The axes along which are replicas."""
        return tuple(name for name in self.data if name not in self.sharded)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(size for _, size in self.axes)

    @property
    def first(self) -> str:
        """The member of rank 0: its replica has the run's result."""
        return self.members[0]

    def coordinate(self, member: str, axis: str) -> int:
        """The place of `member` on `axis`, from 0. Raises CompositionError for an unknown axis or member."""
        self._require(axis)
        return self._coordinates(member)[self.names.index(axis)]

    def group(self, member: str, *axes: str) -> Group:
        """Those that differ from `member` in these axes only, in the order of ranks, as it sees them. Raises as `coordinate`.

        The name is unique in the run: that of all workers is "", others have the axes and the coordinates in the rest, as "data@1.0".
        Where replicas are divided unequally, those along axes of replicas are the workers that hold the same part, the first of several.
        """
        if axes in self._whole and member in self._ranks:
            return Group("", self.members, self._ranks[member], self.seed)
        self._require(*axes)
        if axes and set(axes).issubset(self.apart):
            return self._in_part(member, axes)
        own = self._coordinates(member)
        spanned = [name in axes and size > 1 for name, size in self.axes]
        if all(each or size == 1 for each, size in zip(spanned, self.shape, strict=True)):
            self._whole.add(axes)
            return Group("", self.members, self._ranks[member], self.seed)
        choices = [range(size) if each else (at,) for each, size, at in zip(spanned, self.shape, own, strict=True)]
        ranks = map(self._grid.rank, product(*choices))
        members = tuple(self.members[rank] for rank in ranks if rank is not None)
        return Group(self._name(spanned, own), members, members.index(member), self.seed)

    def groups(self, *axes: str) -> tuple[Group, ...]:
        """The groups over these axes, each as its first member sees it: every worker is in one of them."""
        return tuple(group for member in self.members if (group := self.group(member, *axes)).is_first)

    def line(self, member: str, axis: str) -> Group:
        """The group along one axis for collectives of the parts of a model, by a name that no group of exchanges has."""
        found = self.group(member, axis)
        return replace(found, name=f"{axis} of {found.name or 'all'}")

    @property
    def lines(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Those of all axes with several coordinates: their names and members; none where no axis has the parts of a model."""
        axes = [name for name, size in self.axes if size > 1 and name not in self.apart] if self.cut else []
        return tuple({group.name: group.members for axis in axes for group in (self.line(m, axis) for m in self.members)}.items())

    def world(self, member: str) -> Group:
        """All workers of the run: those that barriers, agreements and checkpoints wait for."""
        return self.here(self.group(member, *self.names))

    def here(self, group: Group) -> Group:
        """Those of a group that are not absent."""
        if not self.absent:
            return group
        members, own = tuple(each for each in group.members if each not in self.absent), group.members[group.rank]
        return replace(group, members=members, rank=members.index(own))

    def without(self, members: Sequence[str]) -> WorkerMesh:
        """The mesh on which only these of its members are left."""
        return replace(self, absent=frozenset(self.members) - frozenset(members))

    @property
    def apart(self) -> tuple[str, ...]:
        """The axes along which no worker has a neighbour that holds the same as it: those of replicas that are divided unequally."""
        return () if self.unequal is None else self.replicated

    @cached_property
    def parts(self) -> tuple[Group, ...]:
        """For each part of the model the workers that hold it and exchange it, as the first of them sees them.

        A worker is in one, but where replicas are divided unequally in one or more.
        """
        if self.unequal is None:
            return self.groups(*self.replicated)
        found = list[Group]()
        for name, coordinates in self.unequal.coordinates_of_parts(self.axes, self.data):
            ranks = map(self._grid.rank, coordinates)
            members = tuple(self.members[rank] for rank in ranks if rank is not None)
            found.append(Group(f"{'+'.join(self.replicated)}@{name}", members, 0, self.seed))
        return tuple(found)

    def parts_of(self, member: str) -> tuple[int, ...]:
        """The numbers of the parts that `member` holds."""
        return tuple(number for number, part in enumerate(self.parts) if member in part.members)

    def part_of_units(self, member: str) -> tuple[int | None, ...]:
        """For each unit of a model whose replicas are divided unequally, the number of the part that has it; None if `member` has not."""
        if self.unequal is None:
            return ()
        replica, own = self.shares(member).rank, self.parts_of(member)
        held = [part for part, holders in enumerate(self.unequal.parts) if holders[replica] == self.coordinate(member, self.unequal.name)]
        numbers = dict(zip(held, own, strict=True))
        return tuple(numbers.get(part) for part in self.unequal.part_of_unit)

    def replicas(self, member: str) -> Group:
        """The workers that hold the same part of the model: those that exchange it. Of several parts it is the first."""
        return self.group(member, *self.replicated)

    def shares(self, member: str) -> Group:
        """The workers among whom the samples are divided: one of each replica, with the same part of the model as `member`."""
        return self.group(member, *self.data)

    def sums(self, member: str) -> ReplicaSums:
        """Who adds up a number of each replica: one worker of each, or all workers where replicas are divided unequally."""
        if self.unequal is None:
            return ReplicaSums.among(self.here(self.shares(member)))
        return ReplicaSums(self.world(member), self.shares(member).size, self.twins(member).is_first)

    def twins(self, member: str) -> Group:
        """The workers that compute on the same samples as `member`: one of them counts these."""
        return self.here(self.group(member, *(name for name in self.names if name not in self.data)))

    def replica(self, member: str) -> Group:
        """The workers that hold the parts of one model with `member`: those over whom its norms are, and without whom it is lost."""
        return self.here(self.group(member, *self.cut))

    def after_loss(self, view: View, name: str) -> View:
        """The view when the actor `name` is lost: a lost part of a model takes its whole replica with it."""
        return view.without(*(self.replica(name).members if name in self._ranks else (name,)))

    @cached_property
    def _whole(self) -> set[tuple[str, ...]]:
        return set()  # axes over which a group was made, and was that of all workers: each of them asks several times

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {member: rank for rank, member in enumerate(self.members)}

    @cached_property
    def _grid(self) -> RankGrid:
        return _grid(self.axes, self.data, self.unequal)

    def _coordinates(self, member: str) -> Coordinates:
        if member not in self._ranks:
            raise CompositionError(f"{member} is not on the mesh, which has {', '.join(self.members)}: ask for one of these.")
        return self._grid.at(self._ranks[member])

    def _in_part(self, member: str, axes: Sequence[str]) -> Group:
        """Those of the first part that `member` holds that differ from it in these axes of replicas only."""
        part = self.parts[self.parts_of(member)[0]]
        others = [self.names.index(name) for name in self.apart if name not in axes]
        at = {each: [self._coordinates(each)[place] for place in others] for each in part.members}
        members = tuple(each for each in part.members if at[each] == at[member])
        name = ".".join([part.name, *map(str, at[member])]) if others else part.name
        return Group(name, members, members.index(member), self.seed)

    def _name(self, spanned: Sequence[bool], own: Sequence[int]) -> str:
        """Axes of size 1 are in no name, so that equal groups have equal names."""
        axes = "+".join(name for name, each in zip(self.names, spanned, strict=True) if each)
        rest = ".".join(str(at) for at, each, size in zip(own, spanned, self.shape, strict=True) if not each and size > 1)
        return f"{axes}@{rest}"

    def _require(self, *axes: str) -> None:
        for axis in axes:
            if axis not in self.names:
                raise CompositionError(f"{axis!r} is no axis of the mesh, which has {', '.join(self.names) or 'none'}: name one of these.")


def _grid(axes: tuple[tuple[str, int], ...], data: Sequence[str], unequal: UnequalAxis | None) -> RankGrid:
    """The coordinates of the workers on these axes."""
    return FullGrid(tuple(size for _, size in axes)) if unequal is None else unequal.grid(axes, data)
