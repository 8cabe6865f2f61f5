"""Weights as they were at the moments of a grid."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.protocols.snapshots import Snapshots, before, index_at, moment, together


def test_moments_double_with_every_eighth() -> None:
    assert moment(0) == 1e-3
    assert moment(80) == pytest.approx(1.024)
    assert max(later / earlier for earlier, later in pairwise(map(moment, range(100)))) < 1.091


@given(st.floats(1e-4, 1e6))
def test_the_latest_moment_is_not_after_a_time_and_the_next_one_is(time: float) -> None:
    index = index_at(time)
    assert index == -1 or moment(index) <= time
    assert time < moment(max(index + 1, 0)) or index + 1 < 0


@given(st.lists(st.floats(1e-3, 100.0), max_size=40).map(sorted), st.integers(1, 60))
def test_an_album_has_the_weights_of_every_moment_that_it_covers(changes: list[float], room: int) -> None:
    """The weights are the number of changes so far; a copy takes four bytes."""
    snapshots = Snapshots(4 * room)
    snapshots.wanted = True
    for count, now in enumerate(changes):
        snapshots.look(now, torch.tensor([float(count)]))
    assert len(snapshots.kept) <= room
    for index in range(0, index_at(changes[-1]) + 3 if changes else 3, snapshots.stride):
        found = snapshots.at(index)
        expected = sum(change <= moment(index) for change in changes)
        alike = {sum(change < moment(index) for change in changes), expected}  # a change at that very moment
        assert (expected == len(changes) or len(changes) in alike) if found is None else found.item() in alike


def test_an_unused_album_stays_empty() -> None:
    snapshots = Snapshots(1000)
    snapshots.look(1.0, torch.zeros(3))
    assert not snapshots.kept


def test_what_is_larger_than_the_room_is_not_kept() -> None:
    snapshots = Snapshots(8)
    snapshots.wanted = True
    for now in (0.1, 0.2, 0.4, 100.0):
        snapshots.look(now, torch.zeros(3))
    assert not snapshots.kept
    assert snapshots.too_large


def test_where_weights_are_larger_than_the_room_nothing_can_be_recorded_checkpoints_a_moment() -> None:
    large, small = Snapshots(8), Snapshots(1000)
    large.wanted = small.wanted = True
    for count, now in enumerate((0.1, 0.2, 0.4, 100.0)):
        for snapshots in (large, small):
            snapshots.look(now, torch.full((3,), float(count)))
    assert together([small])
    assert together([small, large]) == []
    assert before(index_at(100.0), [small]) > 80.0
    assert before(index_at(100.0), [small, large]) == 0.0
    assert together([]) == []


@given(st.lists(st.floats(1e-3, 100.0), max_size=40).map(sorted), st.integers(1, 60))
def test_looking_only_when_it_is_due_changes_nothing(changes: list[float], room: int) -> None:
    always, due = Snapshots(4 * room), Snapshots(4 * room)
    always.wanted = due.wanted = True
    for count, now in enumerate(changes):
        always.look(now, torch.tensor([float(count)]))
        if due.due(now):
            due.look(now, torch.tensor([float(count)]))
    assert (always.kept, always.stride) == (due.kept, due.stride)


def test_what_does_not_change_takes_one_copy() -> None:
    snapshots = Snapshots(40)
    snapshots.wanted = True
    for step in range(1, 1000):
        snapshots.look(step * 0.01, torch.zeros(10))
    assert list(snapshots.kept) == [0]
    assert snapshots.stride == 1
    assert snapshots.at(20) is not None


def test_moments_of_several_are_those_at_which_one_has_something_new() -> None:
    one, other = Snapshots(1 << 20), Snapshots(1 << 20)
    one.wanted = other.wanted = True
    one.look(moment(5), torch.zeros(1))
    other.look(moment(9), torch.zeros(1))
    one.look(moment(20), torch.ones(1))
    assert together([one, other]) == [0, 6]
