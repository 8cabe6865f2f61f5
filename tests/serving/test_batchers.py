"""Laws of all batchers, and what distinguishes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import machine_of, slot_of, straight

from polyrhythm.serving import Batcher, DeferredBatch, DutyTurns, EarlyDrop, FirstInFirstOut, InferenceRequest, LazyDrop, MachineQueue
from polyrhythm.serving.batcher import finish
from polyrhythm.serving.turns import CLIENT_GONE, DEADLINE

MEMBERS = (EarlyDrop(), LazyDrop(), FirstInFirstOut(), DeferredBatch())
SLOT = slot_of(straight("m", 0.001, 0.01), 8, 0.1)
OTHER = slot_of(straight("n", 0.002, 0.005), 4, 0.1, "t")


def queue_of(deadlines: list[float], session: str = "s", first: int = 0) -> list[InferenceRequest]:
    made = [InferenceRequest(first + number, session, 0.0, deadline) for number, deadline in enumerate(deadlines)]
    return sorted(made, key=lambda each: each.order)


deadlines = st.lists(st.floats(-0.1, 0.3), max_size=30)


@pytest.mark.parametrize("batcher", MEMBERS)
@settings(max_examples=80, deadline=None)
@given(deadlines, st.floats(0, 0.1))
def test_a_batch_is_at_most_the_slots_and_no_request_is_both_run_and_dropped(batcher: Batcher, given_: list[float], now: float) -> None:
    queue = queue_of(given_)
    chosen = batcher.choose(queue, now, SLOT)
    assert len(chosen.batch) <= SLOT.batch
    assert not set(chosen.batch) & set(chosen.drops)
    assert {*chosen.batch, *chosen.drops} <= set(queue)
    assert batcher.choose(queue, now, SLOT) == chosen


@pytest.mark.parametrize("batcher", MEMBERS)
@settings(max_examples=80, deadline=None)
@given(deadlines, st.floats(0, 0.1))
def test_a_queue_whose_requests_can_be_served_is_served_or_waits_for_a_known_time(
    batcher: Batcher, given_: list[float], now: float
) -> None:
    chosen = batcher.choose(queue_of(given_), now, SLOT)
    left = len(given_) - len(chosen.drops)
    assert chosen.batch or left == 0 or (chosen.wake is not None and chosen.wake > now)


@pytest.mark.parametrize("batcher", [EarlyDrop(), LazyDrop(), DeferredBatch()])
@settings(max_examples=80, deadline=None)
@given(deadlines, st.floats(0, 0.1))
def test_what_is_run_is_in_time_and_what_is_dropped_could_not_be_with_that_batch(batcher: Batcher, given_: list[float], now: float) -> None:
    chosen = batcher.choose(queue_of(given_), now, SLOT)
    if chosen.batch:
        assert finish(SLOT, now, len(chosen.batch)) <= chosen.batch[0].deadline + 1e-9
    assert all(request.deadline < finish(SLOT, now, SLOT.batch) for request in chosen.drops)


@pytest.mark.parametrize("batcher", MEMBERS)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.02, 0.3), min_size=1, max_size=30))
def test_a_request_is_given_up_at_its_drop_time_and_not_before(batcher: Batcher, given_: list[float]) -> None:
    queue = queue_of(given_)
    at = batcher.drop_time(queue, SLOT)
    if at < math.inf:
        assert batcher.expired(queue, at - 1e-6, SLOT) == ()
        assert queue[0] in batcher.expired(queue, at + 1e-6, SLOT)


def test_early_drop_keeps_batches_full_where_lazy_drop_makes_them_small() -> None:
    queue = queue_of([0.012] * 2 + [0.1] * 20)
    assert len(EarlyDrop().choose(queue, 0.0, SLOT).batch) == 8
    assert len(EarlyDrop().choose(queue, 0.0, SLOT).drops) == 2
    assert len(LazyDrop().choose(queue, 0.0, SLOT).batch) == 2
    assert LazyDrop().choose(queue, 0.0, SLOT).drops == ()


def test_a_deferred_batch_waits_until_it_is_full_or_its_head_must_begin() -> None:
    batcher = DeferredBatch(0.001)
    waits = batcher.choose(queue_of([0.1] * 3), 0.0, SLOT)
    assert waits.batch == ()
    assert waits.wake == pytest.approx(0.1 - 0.014 - 0.001)
    assert len(batcher.choose(queue_of([0.1] * 3), waits.wake or 0.0, SLOT).batch) == 3
    assert len(batcher.choose(queue_of([0.1] * 8), 0.0, SLOT).batch) == 8


def test_an_expired_request_has_no_priority() -> None:
    """In llm-d's gateway an expired request became the most urgent one."""
    plan, turns = machine_of(SLOT, OTHER), DutyTurns()
    queues = {"s": queue_of([-0.05]), "t": queue_of([0.1], "t", 10)}
    chosen = turns.choose(queues, 0.0, plan, 0)
    assert chosen.slot == OTHER
    assert [(request.number, why) for request, why in chosen.drops] == [(0, DEADLINE)]


def test_sessions_take_turns_and_an_idle_turn_goes_to_the_most_urgent() -> None:
    third = slot_of(straight("o", 0.001, 0.002), 4, 0.1, "u")
    plan, turns = machine_of(SLOT, OTHER, third), DutyTurns()
    queues = {"s": queue_of([0.2] * 20), "t": queue_of([0.2] * 10, "t", 100), "u": queue_of([0.2] * 10, "u", 200)}
    order, turn = [], 0
    for _ in range(3):
        chosen = turns.choose(queues, 0.0, plan, turn)
        assert chosen.slot is not None
        order.append(chosen.slot.session)
        turn = chosen.turn
    assert order == ["s", "t", "u"]
    urgent = {"t": queue_of([0.3] * 2, "t", 100), "u": queue_of([0.1], "u", 200)}
    chosen = turns.choose(urgent, 0.0, plan, 0)
    assert chosen.slot == third
    assert chosen.turn == 1


def test_clients_that_have_gone_are_left_out_before_the_batch_is_made() -> None:
    machine = MachineQueue(machine_of(SLOT), DutyTurns())
    for request in queue_of([0.2] * 10):
        machine.add(request)
    for number in (0, 1, 77):
        machine.leave(number)
    chosen = machine.choose(0.0)
    assert [request.number for request in chosen.batch] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert [(request.number, why) for request, why in chosen.drops] == [(0, CLIENT_GONE), (1, CLIENT_GONE)]
    assert len(machine) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "add", "choose", "expire", "leave", "install"]), st.floats(0, 0.02)), max_size=60))
def test_every_request_leaves_the_queue_of_a_machine_once(deeds: list[tuple[str, float]]) -> None:
    plans = [machine_of(SLOT, OTHER), machine_of(SLOT), machine_of(OTHER)]
    machine, now, seen, number = MachineQueue(plans[0], DutyTurns()), 0.0, [], 0
    for index, (deed, seconds) in enumerate(deeds):
        now += seconds
        if deed == "add":
            session = machine.plan.slots[index % len(machine.plan.slots)].session
            machine.add(InferenceRequest(number, session, now, now + 0.03 + seconds))
            number += 1
        elif deed == "choose":
            chosen = machine.choose(now)
            seen += [each.number for each in chosen.batch] + [each.number for each, _ in chosen.drops]
        elif deed == "expire":
            seen += [each.number for each, _ in machine.expired(now)]
        elif deed == "leave":
            machine.leave(index % max(1, number))
        else:
            seen += [each.number for each in machine.install(plans[index % 3])]
    seen += [each.number for each in machine.clear()]
    assert sorted(seen) == list(range(number))
