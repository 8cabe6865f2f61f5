"""Laws of every consistency: no one goes beyond its bound, and the slowest is never held up."""

from __future__ import annotations

import pytest
from endpoints import context_of
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.consistency import MEMBERS, Asynchronous, Bounded, BulkSynchronous, Every, Intervals, LocalSteps, SoftSync, Switched
from polyrhythm.consistency.schedules import ExchangeSchedule
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.errors import CompositionError

each = pytest.mark.parametrize("rule", MEMBERS, ids=repr)
clocks = st.integers(1, 50)


@each
@given(mine=clocks)
def test_the_slowest_is_never_held_up(rule: Consistency, mine: int) -> None:
    assert rule.conditions.may_proceed(mine, mine)


@each
@given(mine=clocks, slowest=clocks)
def test_waiting_longer_never_closes_a_way_that_was_open(rule: Consistency, mine: int, slowest: int) -> None:
    if rule.conditions.may_proceed(mine, slowest):
        assert rule.conditions.may_proceed(mine, slowest + 1)


@each
@given(mine=clocks, known=clocks)
def test_who_must_not_go_on_must_read(rule: Consistency, mine: int, known: int) -> None:
    if not rule.conditions.may_proceed(mine, known):
        assert rule.conditions.must_read(mine, known)


@each
@pytest.mark.parametrize("workers", [1, 2, 3, 8, 30])
def test_a_group_has_at_least_one_and_at_most_everybody(rule: Consistency, workers: int) -> None:
    assert 1 <= rule.conditions.quorum(workers) <= workers


@each
@given(start=clocks)
def test_everybody_speaks_again_and_again(rule: Consistency, start: int) -> None:
    assert any(rule.conditions.exchanges(context_of(3, clock=clock)) for clock in range(start, start + 10))


@each
@given(start=clocks)
def test_everything_is_pushed_and_something_is_read_again_and_again(rule: Consistency, start: int) -> None:
    spoken = [clock for clock in range(start, start + 60) if rule.conditions.exchanges(context_of(3, clock=clock))]
    assert any(rule.conditions.pushes(clock) for clock in spoken)
    assert any(rule.conditions.must_read(clock, 0) for clock in spoken)


@each
@given(mine=clocks, slowest=clocks)
def test_who_does_not_wait_for_weights_waits_for_no_other_and_survives_a_loss(rule: Consistency, mine: int, slowest: int) -> None:
    if not rule.traits.waits:
        assert rule.conditions.may_proceed(mine, slowest)
        assert rule.traits.tolerates_loss
        assert rule.traits.order_matters


@given(mine=clocks, slowest=clocks)
def test_a_bound_without_slack_decides_as_lockstep_does(mine: int, slowest: int) -> None:
    bounded, locked = Bounded(0), BulkSynchronous()
    assert bounded.conditions.may_proceed(mine, slowest) == locked.conditions.may_proceed(mine, slowest)
    assert bounded.conditions.must_read(mine, slowest) == locked.conditions.must_read(mine, slowest)
    assert bounded.conditions.may_merge(slowest, mine) == locked.conditions.may_merge(slowest, mine)
    assert bounded.conditions.quorum(mine) == locked.conditions.quorum(mine)
    assert bounded.traits.order_matters == locked.traits.order_matters


@given(slack=st.integers(0, 20), mine=clocks, slowest=clocks)
def test_a_bound_holds_exactly(slack: int, mine: int, slowest: int) -> None:
    assert Bounded(slack).conditions.may_proceed(mine, slowest) == (mine - slowest <= slack)
    assert BulkSynchronous().conditions.may_proceed(mine, slowest) == Bounded(0).conditions.may_proceed(mine, slowest)
    assert Asynchronous().conditions.may_proceed(mine, slowest)
    assert not Asynchronous().conditions.waits
    assert Bounded(slack).conditions.waits


@given(tau=st.integers(1, 12), push=st.integers(1, 12), fetch=st.integers(1, 12), rounds=st.integers(1, 30))
def test_local_steps_push_and_fetch_as_often_as_the_intervals_and_exchanges_allow(tau: int, push: int, fetch: int, rounds: int) -> None:
    rule, steps = LocalSteps(tau, Intervals(push, fetch)), rounds * tau
    spoken = [clock for clock in range(1, steps + 1) if rule.conditions.exchanges(context_of(3, clock=clock))]
    assert sum(rule.conditions.pushes(clock) for clock in spoken) == (steps // push if push >= tau else rounds)
    assert sum(rule.conditions.must_read(clock, 0) for clock in spoken) == (steps // fetch if fetch >= tau else rounds)


@given(tau=st.integers(1, 12), slack=st.integers(0, 20), mine=clocks, known=clocks)
def test_a_bound_counts_steps_whatever_tau_is(tau: int, slack: int, mine: int, known: int) -> None:
    assert LocalSteps(tau, Bounded(slack)).conditions.must_read(mine, known) == Bounded(slack).conditions.must_read(mine, known)
    assert LocalSteps(tau, Bounded(slack)).conditions.may_proceed(mine, known) == Bounded(slack).conditions.may_proceed(mine, known)


schedules = st.one_of(
    st.builds(lambda steps, offset: Every(steps, offset % steps), st.integers(1, 12), st.integers(0, 11)),
    st.builds(Switched, st.integers(0, 20), st.integers(1, 12)),
)


@given(schedule=schedules, clock=clocks)
def test_a_schedule_knows_the_exchange_before(schedule: ExchangeSchedule, clock: int) -> None:
    assert schedule.before(clock) == max((step for step in range(1, clock) if schedule.due(step)), default=0)


@given(steps=st.integers(1, 12), fragments=st.integers(1, 6))
def test_staggered_schedules_have_each_its_turn(steps: int, fragments: int) -> None:
    turns = [[step for step in range(1, 61) if Every(steps, k * steps // fragments).due(step)] for k in range(fragments)]
    assert all(len(turn) >= 60 // steps for turn in turns)
    if fragments <= steps:
        assert len({step for turn in turns for step in turn}) == sum(map(len, turns))


@pytest.mark.parametrize(("groups", "workers", "expected"), [(1, 30, 30), (4, 30, 7), (30, 30, 1), (50, 30, 1)])
def test_softsync_merges_the_papers_number_of_gradients(groups: int, workers: int, expected: int) -> None:
    assert SoftSync(groups).conditions.quorum(workers) == expected


@pytest.mark.parametrize(
    "make",
    [
        *(lambda: Bounded(-1), lambda: SoftSync(0), lambda: LocalSteps(0), lambda: Intervals(0), lambda: Intervals(1, 0)),
        *(lambda: LocalSteps(8.0), lambda: LocalSteps("8"), lambda: LocalSteps(None), lambda: LocalSteps(Every)),  # type: ignore[arg-type]
        *(lambda: Every(0), lambda: Every(4, 4), lambda: Switched(-1, 2), lambda: Switched(3, 0)),
    ],
)
def test_settings_without_meaning_are_refused_with_a_remedy(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match="give"):
        make()
