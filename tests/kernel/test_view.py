"""A view of the members: losses are applied once, in order, and the first is always one that is present."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.view import View

MEMBERS = workers(6)
losses = st.lists(st.sampled_from([*MEMBERS, "server/0"]), max_size=12)


def after(names: list[str]) -> View:
    view = View.of(MEMBERS)
    for name in names:
        view = view.without(name)
    return view


@given(losses)
def test_who_is_present_and_who_has_left_are_all_members_each_once(names: list[str]) -> None:
    view = after(names)
    assert sorted((*view.members, *view.left)) == sorted(MEMBERS)
    assert view.left == tuple(dict.fromkeys(name for name in names if name in MEMBERS))
    assert view.epoch == len(view.left)


@given(losses)
def test_a_loss_of_who_is_not_present_changes_nothing(names: list[str]) -> None:
    view = after(names)
    assert view.without(*view.left, "server/0") == view
    assert view.without() == view


@given(losses, st.lists(st.sampled_from(MEMBERS), min_size=1))
def test_several_that_leave_at_once_are_one_change(names: list[str], leaving: list[str]) -> None:
    before = after(names)
    view = before.without(*leaving)
    assert view.members == tuple(name for name in before.members if name not in leaving)
    assert view.epoch == before.epoch + (view.members != before.members)


@given(losses)
def test_ranks_count_those_that_are_present(names: list[str]) -> None:
    view = after(names)
    assert [view.rank(name) for name in view.members] == list(range(view.size))
    assert all(view.present(name) == (name in view.members) for name in [*MEMBERS, "server/0"])
    assert not view.members or view.rank(view.first) == 0
