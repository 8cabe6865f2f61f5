"""Meshes of replicas that are divided unequally: every part of a model has one holder in each replica."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.mesh import MeshShape, WorkerMesh
from polyrhythm.core.kernel.unequal_axis import UnequalAxis
from polyrhythm.errors import CompositionError


@st.composite
def divisions(draw: st.DrawFn) -> UnequalAxis:
    """Some replicas of a model of a few units, each cut anywhere."""
    units = draw(st.integers(1, 6))
    holders = []
    for _ in range(draw(st.integers(1, 4))):
        cuts = draw(st.sets(st.integers(1, max(1, units - 1)), max_size=units - 1))
        holders.append(tuple(accumulate(int(unit in cuts and unit > 0) for unit in range(units))))
    return UnequalAxis("stage", tuple(holders))


@st.composite
def meshes(draw: st.DrawFn) -> WorkerMesh:
    axis, tensor = draw(divisions()), draw(st.integers(1, 2))
    axes = (("site", 1), ("data", len(axis.holders)), ("stage", max(axis.lengths)), ("tensor", tensor))
    return WorkerMesh(axes, workers(sum(axis.lengths) * tensor), 3, ("site", "data"), unequal=axis)


@given(divisions())
def test_parts_are_units_with_the_same_holders(axis: UnequalAxis) -> None:
    for unit, part in enumerate(axis.part_of_unit):
        assert axis.parts[part] == tuple(own[unit] for own in axis.holders)
    assert len(axis.parts) <= sum(length - 1 for length in axis.lengths) + 1


@given(meshes())
def test_each_replica_has_one_holder_of_each_part(mesh: WorkerMesh) -> None:
    assert mesh.unequal is not None
    names = [part.name for part in mesh.parts]
    assert len(set(names)) == len(names)
    for part in mesh.parts:
        assert [mesh.coordinate(member, "data") for member in part.members] == list(range(len(mesh.unequal.holders)))
        assert len({mesh.coordinate(member, "tensor") for member in part.members}) == 1
    assert {member for part in mesh.parts for member in part.members} == set(mesh.members)


@given(meshes())
def test_units_of_a_worker_are_in_its_parts_and_others_in_none(mesh: WorkerMesh) -> None:
    assert mesh.unequal is not None
    for member in mesh.members:
        own = mesh.unequal.holders[mesh.coordinate(member, "data")]
        for unit, part in enumerate(mesh.part_of_units(member)):
            assert (part is not None) == (own[unit] == mesh.coordinate(member, "stage"))
            assert part is None or member in mesh.parts[part].members
        assert {part for part in mesh.part_of_units(member) if part is not None} == set(mesh.parts_of(member))


@given(meshes())
def test_a_worker_finds_its_replica_its_share_and_who_adds_up(mesh: WorkerMesh) -> None:
    assert mesh.unequal is not None
    for member in mesh.members:
        replica = mesh.coordinate(member, "data")
        alike = [other for other in mesh.members if mesh.coordinate(other, "data") == replica]
        assert list(mesh.twins(member).members) == alike
        shares, sums = mesh.shares(member), mesh.sums(member)
        assert (shares.rank, shares.size, shares.members[shares.rank]) == (replica, len(mesh.unequal.holders), member)
        assert (sums.gives, sums.replicas, sums.group.members) == (alike[0] == member, shares.size, mesh.members)
        assert sums.counted(len(mesh.members)) == shares.size


@given(meshes())
def test_ranks_are_coordinates_in_row_major_order(mesh: WorkerMesh) -> None:
    places = [tuple(mesh.coordinate(member, axis) for axis in mesh.names) for member in mesh.members]
    assert places == sorted(places)
    assert len(set(places)) == len(places)


@given(meshes())
def test_lines_are_within_replicas(mesh: WorkerMesh) -> None:
    for _, members in mesh.lines:
        assert len({mesh.coordinate(member, "data") for member in members}) == 1


@given(st.integers(1, 3), st.integers(2, 3))
def test_equal_replicas_have_the_groups_of_an_equal_mesh(replicas: int, stages: int) -> None:
    axes = (("data", replicas), ("stage", stages))
    equal = WorkerMesh(axes, workers(replicas * stages))
    unequal = WorkerMesh(axes, workers(replicas * stages), unequal=UnequalAxis("stage", (tuple(range(stages)),) * replicas))
    for member in equal.members:
        assert unequal.replicas(member).members == equal.replicas(member).members
        assert unequal.twins(member) == equal.twins(member)
        assert unequal.replica(member) == equal.replica(member)


def test_the_shape_says_how_many_workers_there_are() -> None:
    shape = MeshShape((("data", 2), ("stage", 3)), unequal=UnequalAxis("stage", ((0, 0, 1, 1), (0, 1, 1, 2))))
    assert shape.workers(lambda available: available, 8) == 5
    assert shape.mesh(workers(5), 0).unequal == shape.unequal


@pytest.mark.parametrize("holders", [(), ((0, 1), (0,)), ((0, 2),), ((),)])
def test_holders_that_cannot_be_are_refused(holders: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(CompositionError, match="give each replica the same units"):
        UnequalAxis("stage", holders)


@pytest.mark.parametrize(
    ("axes", "data", "sharded", "sentence"),
    [
        ((("data", 2), ("stage", 2)), ("data",), (), "at most 3 coordinates"),
        ((("data", 2), ("stage", 3)), ("data",), ("data",), "share their state"),
        ((("data", 2), ("stage", 3)), ("data", "stage"), (), "axis of the parts"),
        ((("data", 3), ("stage", 3)), ("data",), (), "3 replicas, and 2 are divided"),
    ],
)
def test_axes_that_do_not_fit_an_unequal_one_are_refused(
    axes: tuple[tuple[str, int], ...], data: tuple[str, ...], sharded: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(CompositionError, match=sentence):
        WorkerMesh(axes, workers(5), 0, data, sharded, unequal=UnequalAxis("stage", ((0, 0, 1, 1), (0, 1, 1, 2))))
