"""Named axes over the workers: groups partition them, and every consumer finds the group that it means."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.kernel.group import Group, workers
from polyrhythm.core.kernel.mesh import DATA, WorkerMesh
from polyrhythm.core.kernel.view import View
from polyrhythm.errors import CompositionError

NAMES = (DATA, "stage", "tensor")


def mesh_of(*sizes: int) -> WorkerMesh:
    return WorkerMesh(tuple(zip(NAMES, sizes, strict=False)), workers(prod(sizes)), 7)


meshes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(lambda sizes: mesh_of(*sizes))


@st.composite
def meshes_with_axes(draw: st.DrawFn) -> tuple[WorkerMesh, list[str]]:
    mesh = draw(meshes)
    return mesh, [name for name in mesh.names if draw(st.booleans())]


@given(meshes)
def test_ranks_are_coordinates_in_row_major_order(mesh: WorkerMesh) -> None:
    places = list(product(*(range(size) for size in mesh.shape)))
    assert [tuple(mesh.coordinate(name, axis) for axis in mesh.names) for name in mesh.members] == places


@given(meshes_with_axes())
def test_the_groups_over_some_axes_partition_the_members(case: tuple[WorkerMesh, list[str]]) -> None:
    mesh, axes = case
    groups = mesh.groups(*axes)
    assert sorted(name for group in groups for name in group.members) == sorted(mesh.members)
    assert {group.size for group in groups} == {prod(size for name, size in mesh.axes if name in axes)}
    assert all(mesh.group(name, *axes).members == group.members for group in groups for name in group.members)


@given(meshes_with_axes())
def test_a_group_has_those_that_differ_in_its_axes_only_in_the_order_of_ranks(case: tuple[WorkerMesh, list[str]]) -> None:
    mesh, axes = case
    rest = [name for name in mesh.names if name not in axes]
    for name in mesh.members:
        group = mesh.group(name, *axes)
        expected = [other for other in mesh.members if all(mesh.coordinate(other, a) == mesh.coordinate(name, a) for a in rest)]
        assert group.members == tuple(expected)
        assert group.members[group.rank] == name
        assert group.seed == mesh.seed


@given(meshes_with_axes())
def test_a_group_and_one_over_the_rest_of_the_axes_recover_all_members(case: tuple[WorkerMesh, list[str]]) -> None:
    mesh, axes = case
    rest = [name for name in mesh.names if name not in axes]
    for name in mesh.members:
        found = [other for each in mesh.group(name, *axes).members for other in mesh.group(each, *rest).members]
        assert sorted(found) == sorted(mesh.members)


@given(meshes)
def test_the_group_over_all_axes_is_all_members_and_has_no_name(mesh: WorkerMesh) -> None:
    assert [mesh.world(name) for name in mesh.members] == [Group("", mesh.members, rank, 7) for rank in range(len(mesh.members))]


@given(meshes, st.data())
def test_two_groups_have_the_same_name_if_and_only_if_they_have_the_same_members(mesh: WorkerMesh, data: st.DataObject) -> None:
    some = st.lists(st.sampled_from(mesh.names), unique=True)
    one, other = (mesh.group(data.draw(st.sampled_from(mesh.members)), *data.draw(some)) for _ in range(2))
    assert (one.name == other.name) == (one.members == other.members)


@given(meshes)
def test_a_mesh_of_one_axis_has_replicas_of_the_whole_model(mesh: WorkerMesh) -> None:
    flat = WorkerMesh.flat(mesh.members, 7)
    for name in mesh.members:
        assert flat.replicas(name) == flat.world(name)
        assert flat.replica(name).members == (name,)
        assert flat.after_loss(View.of(mesh.members), name) == View.of(mesh.members).without(name)


@given(meshes)
def test_axes_of_size_one_change_no_group(mesh: WorkerMesh) -> None:
    wider = WorkerMesh((*mesh.axes, ("alone", 1)), mesh.members, mesh.seed)
    for name in mesh.members:
        assert wider.replicas(name) == mesh.replicas(name)
        assert wider.replica(name) == mesh.replica(name)
        assert wider.world(name) == mesh.world(name)


@given(meshes, st.data())
def test_a_lost_part_of_a_model_takes_its_replica_and_nobody_else(mesh: WorkerMesh, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(mesh.members))
    after = mesh.after_loss(View.of(mesh.members), name)
    assert after.left == mesh.replica(name).members
    assert all(set(mesh.replica(each).members) <= set(after.members) for each in after.members)
    assert mesh.after_loss(after, name) is after


def test_a_lost_server_is_in_no_replica() -> None:
    view = View.of([*workers(2), "server/0"])
    assert WorkerMesh.flat(workers(2)).after_loss(view, "server/0").members == workers(2)


def test_groups_are_named_by_their_axes_and_the_coordinates_in_the_rest() -> None:
    mesh = mesh_of(2, 2, 2)
    assert mesh.group("worker/2", DATA) == Group("data@1.0", ("worker/2", "worker/6"), 0, 7)
    assert mesh.group("worker/2", "tensor", "stage").name == "stage+tensor@0"
    assert mesh.group("worker/6").name == "@1.1.0"


@pytest.mark.parametrize(
    ("axes", "problem"),
    [
        (((DATA, 3),), "is for 3 workers, and there are 4: choose sizes"),
        (((DATA, 2), (DATA, 2)), "has an axis twice"),
        (((DATA, 4), ("stage", 0)), "has 0 coordinates in 'stage': give each axis 1 or more"),
        ((("a@b", 4),), "has an axis 'a@b'"),
    ],
)
def test_axes_that_do_not_fit_are_refused(axes: tuple[tuple[str, int], ...], problem: str) -> None:
    with pytest.raises(CompositionError, match=problem):
        WorkerMesh(axes, workers(4))


def test_an_unknown_axis_or_member_is_refused() -> None:
    mesh = mesh_of(2, 2)
    for ask in (lambda: mesh.group("worker/0", DATA, "tensor"), lambda: mesh.coordinate("worker/0", "tensor")):
        with pytest.raises(CompositionError, match=r"'tensor' is no axis of the mesh, which has data, stage: name one of these\."):
            ask()
    with pytest.raises(CompositionError, match=r"server/0 is not on the mesh, which has worker/0, .*: ask for one of these\."):
        mesh.group("server/0", DATA)


@given(meshes)
def test_each_axis_of_parts_has_lines_of_its_own_that_no_exchange_is_over(mesh: WorkerMesh) -> None:
    lines = dict(mesh.lines)
    exchanged = {group.name for size in range(len(mesh.names) + 1) for group in mesh.groups(*mesh.names[:size])}
    assert not exchanged.intersection(lines)
    for name, size in mesh.axes:
        for member in mesh.members:
            line = mesh.line(member, name)
            assert line.members == mesh.group(member, name).members
            assert lines.get(line.name) == (line.members if mesh.cut and size > 1 else None)


def test_replicas_of_a_whole_model_have_no_lines() -> None:
    assert WorkerMesh.flat(workers(4)).lines == ()
