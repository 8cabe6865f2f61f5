"""The conditions of each consistency as tables worked out by hand, what wrappers keep of their inner rule, and the text of refusals."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
from endpoints import context_of

from polyrhythm.consistency import (
    Asynchronous,
    Bounded,
    BoundedDelay,
    Buffered,
    BulkSynchronous,
    Every,
    Intervals,
    LocalSteps,
    PacedLocalSteps,
    SampledClients,
    SoftSync,
    Switched,
    WarmStart,
)
from polyrhythm.consistency.sampled_clients import _drawn
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.traits import (
    GRADIENTS,
    ConsistencyTraits,
    ControlledSetting,
    HeadStart,
    Payload,
)
from polyrhythm.errors import CompositionError

SERVER = frozenset({Capability.SERVER})
LOCAL = frozenset({Payload.UPDATE, Payload.WEIGHTS})
CLOCKS = range(1, 7)
GROUP = Group.of_workers(4, 0, seed=3)


def table(rule: Consistency) -> dict[str, Any]:
    """Every answer of the conditions for four workers and clocks from 1 to 6."""
    asked = rule.conditions
    pairs = [(a, b) for a in CLOCKS for b in CLOCKS]
    return {
        "exchanges": [clock for clock in CLOCKS if asked.exchanges(context_of(4, clock=clock))],
        "takes_part": [(clock, rank) for clock in CLOCKS for rank in range(4) if asked.takes_part(clock, rank, GROUP)],
        "pushes": [clock for clock in CLOCKS if asked.pushes(clock)],
        "quorum": [asked.quorum(workers) for workers in (1, 2, 4, 9)],
        "may_proceed": [pair for pair in pairs if asked.may_proceed(*pair)],
        "must_read": [pair for pair in pairs if asked.must_read(*pair)],
        "may_merge": [pair for pair in pairs if asked.may_merge(*pair)],
    }


def expected(
    exchanges: Callable[[int], bool] = lambda clock: True,
    pushes: Callable[[int], bool] = lambda clock: True,
    quorum: tuple[int, ...] = (1, 1, 1, 1),
    proceeds: Callable[[int, int], bool] = lambda mine, slowest: True,
    reads: Callable[[int, int], bool] = lambda mine, known: True,
    merges: Callable[[int, int], bool] = lambda clock, mine: True,
) -> dict[str, Any]:
    """The table of a rule under which every worker takes part."""
    pairs = [(a, b) for a in CLOCKS for b in CLOCKS]
    return {
        "exchanges": list(filter(exchanges, CLOCKS)),
        "takes_part": [(clock, rank) for clock in CLOCKS for rank in range(4)],
        "pushes": list(filter(pushes, CLOCKS)),
        "quorum": list(quorum),
        "may_proceed": [pair for pair in pairs if proceeds(*pair)],
        "must_read": [pair for pair in pairs if reads(*pair)],
        "may_merge": [pair for pair in pairs if merges(*pair)],
    }


ALL = (1, 2, 4, 9)
LOCKED = expected(quorum=ALL, proceeds=lambda mine, slowest: mine <= slowest, merges=lambda clock, mine: clock <= mine)
TABLES: list[tuple[Consistency, dict[str, Any]]] = [
    (BulkSynchronous(), LOCKED),
    (Bounded(0), LOCKED),
    (BoundedDelay(), LOCKED),
    (SoftSync(1, Bounded(0)), LOCKED),
    (Bounded(2), expected(proceeds=lambda mine, slowest: mine <= slowest + 2, reads=lambda mine, known: mine > known + 2)),
    (BoundedDelay(2), expected(quorum=ALL, proceeds=lambda mine, slowest: mine <= slowest + 2, reads=lambda mine, known: mine > known + 2)),
    (BoundedDelay(None), expected(quorum=ALL)),
    (Asynchronous(), expected()),
    (SoftSync(), expected(quorum=ALL)),
    (SoftSync(2), expected(quorum=(1, 1, 2, 4))),
    (Buffered(2), expected(quorum=(1, 2, 2, 2))),
    (Intervals(), expected()),
    (Intervals(2, 3), expected(pushes=lambda clock: clock in (2, 4, 6), reads=lambda mine, known: mine in (3, 6))),
    (LocalSteps(2), LOCKED | {"exchanges": [2, 4, 6]}),
    (LocalSteps(Every(3, offset=1)), LOCKED | {"exchanges": [1, 4]}),
    (LocalSteps(Switched(2, 3)), LOCKED | {"exchanges": [1, 2, 5]}),
    (LocalSteps(2, Asynchronous()), expected(exchanges=lambda clock: clock % 2 == 0)),
    (PacedLocalSteps(3), expected(exchanges=lambda clock: clock in (3, 6))),
    (SampledClients(1.0, 3), LOCKED | {"exchanges": [3, 6]}),
]


@pytest.mark.parametrize(("rule", "answers"), TABLES, ids=[repr(rule) for rule, _ in TABLES])
def test_the_conditions_are_those_worked_out_by_hand(rule: Consistency, answers: dict[str, Any]) -> None:
    assert table(rule) == answers


def test_a_push_or_read_between_two_exchanges_is_done_at_the_second() -> None:
    conditions = LocalSteps(3, Intervals(push=2, fetch=5)).conditions
    assert [clock for clock in (3, 6, 9, 12, 15, 18) if conditions.pushes(clock)] == [3, 6, 9, 12, 15, 18]
    assert [clock for clock in (3, 6, 9, 12, 15, 18) if conditions.must_read(clock, 0)] == [6, 12, 15]
    assert [clock for clock in (1, 5, 9) if LocalSteps(Every(4, 1), Intervals(push=4)).conditions.pushes(clock)] == [5, 9]
    assert [known for known in range(7) if LocalSteps(3, Bounded(2)).conditions.must_read(6, known)] == [0, 1, 2, 3]


INNER = (Asynchronous(), Intervals(2, 3), LocalSteps(2, Asynchronous()), Buffered(3), WarmStart(3, 2))
WAITING = (BulkSynchronous(), Bounded(2), BoundedDelay(1), LocalSteps(3), SampledClients(0.5, 2))
WRAPPERS: list[tuple[Callable[[Consistency], Consistency], tuple[Consistency, ...], set[str]]] = [
    (lambda then: Buffered(2, then), INNER + WAITING, {"quorum"}),
    (lambda then: SoftSync(2, then), INNER + WAITING, {"quorum"}),
    (lambda then: WarmStart(3, 2, then), INNER, set()),
    (lambda then: PacedLocalSteps(4, then), INNER, {"exchanges"}),
    (lambda then: LocalSteps(1, then), (*INNER, *WAITING), {"exchanges"}),
]


@pytest.mark.parametrize(("wrap", "inner", "own"), WRAPPERS, ids=["buffered", "softsync", "warm start", "paced", "local steps"])
def test_a_rule_that_wraps_another_asks_it_for_all_that_it_does_not_decide(
    wrap: Callable[[Consistency], Consistency], inner: tuple[Consistency, ...], own: set[str]
) -> None:
    for then in inner:
        mine, kept = table(wrap(then)), table(then)
        assert {name for name in mine if mine[name] != kept[name]} <= own, then
    assert set().union(*({name for name in own if table(wrap(then))[name] != table(then)[name]} for then in inner)) == own


def test_who_takes_part_is_drawn_for_each_round_from_the_seed_of_the_run() -> None:
    conditions = SampledClients(0.5, 2).conditions
    rounds = [[rank for rank in range(9) if conditions.takes_part(clock, rank, Group.of_workers(9, 0, seed=1))] for clock in range(1, 81)]
    assert rounds[::2] == rounds[1::2], "both steps of a round"
    assert rounds[::2] == [sorted(_drawn(1, number, 9, 4)) for number in range(40)], "from round 0"
    assert all(len(drawn) == conditions.quorum(9) == 4 for drawn in rounds), "half of nine, without repetition"
    assert {rank for drawn in rounds for rank in drawn} == set(range(9))
    assert len({tuple(drawn) for drawn in rounds}) > 20, "anew for each round"
    assert rounds != [[r for r in range(9) if conditions.takes_part(c, r, Group.of_workers(9, 0, seed=2))] for c in range(1, 81)]
    assert [SampledClients(0.1).conditions.quorum(workers) for workers in (1, 4, 16, 30)] == [1, 1, 2, 3]
    assert [clock for clock in range(1, 31) if SampledClients(0.1).conditions.exchanges(context_of(4, clock=clock))] == [10, 20, 30]


@dataclasses.dataclass(frozen=True)
class Decided:
    """The controls after one decision, or none."""

    setting: ControlledSetting
    decision: float | None

    def value(self, setting: ControlledSetting, composed: float) -> float:
        """The decision on `setting`, else the composed value."""
        return composed if self.decision is None or setting is not self.setting else self.decision


def test_a_controller_sets_the_local_steps_of_each_worker() -> None:
    def exchanges(steps: float | None) -> list[int]:
        rule, controls = PacedLocalSteps(3).conditions, Decided(ControlledSetting.LOCAL_STEPS, steps)
        return [clock for clock in range(1, 13) if rule.exchanges(context_of(2, clock=clock).changed(controls=controls))]

    assert [exchanges(steps) for steps in (None, 5, 4.9, 2)] == [[3, 6, 9, 12], [5, 10], [4, 8, 12], [2, 4, 6, 8, 10, 12]]
    assert exchanges(0.5) == exchanges(1) == list(range(1, 13)), "at least one step"


def test_traits_are_those_of_the_waiting_rule_but_for_what_a_rule_adds() -> None:
    free = ConsistencyTraits(GRADIENTS | {Payload.NOTHING}, frozenset({Capability.ONE_SIDED}), order_matters=True, tolerates_loss=True)
    locked = ConsistencyTraits(GRADIENTS, frozenset({Capability.WAITING}), order_matters=False, tolerates_loss=False)
    background = ConsistencyTraits(GRADIENTS - {Payload.FACTORS}, SERVER, order_matters=True, tolerates_loss=True, waits=False)
    served = dataclasses.replace(locked, requires=SERVER)
    for rule, traits in [
        (Asynchronous(), free),
        (BulkSynchronous(), locked),
        (Intervals(2, 3), background),
        *(
            (Bounded(slack), ConsistencyTraits(GRADIENTS, frozenset({Capability.CLOCKS}), order_matters=slack > 0, tolerates_loss=False))
            for slack in (0, 1, 3)
        ),
        *((BoundedDelay(delay), dataclasses.replace(served, order_matters=delay != 0)) for delay in (0, 1, 2, None)),
        (Buffered(2), dataclasses.replace(free, requires=SERVER)),
        (Buffered(2, BulkSynchronous()), dataclasses.replace(served, order_matters=True)),
        (SoftSync(1), dataclasses.replace(free, requires=SERVER)),
        (SoftSync(1, BulkSynchronous()), served),
        (SoftSync(2, BulkSynchronous()), dataclasses.replace(served, order_matters=True)),
        (LocalSteps(4), dataclasses.replace(locked, payloads=LOCAL)),
        (LocalSteps(4, Intervals()), dataclasses.replace(background, payloads=LOCAL)),
        (SampledClients(1.0, 4), dataclasses.replace(locked, payloads=LOCAL)),
        (SampledClients(0.5, 4), dataclasses.replace(served, payloads=frozenset({Payload.UPDATE}), chooses=True)),
        (WarmStart(3, 2), dataclasses.replace(free, requires=SERVER, head_start=HeadStart(3, 2))),
        (WarmStart(0, 1, Intervals()), dataclasses.replace(background, head_start=HeadStart(0, 1))),
        (
            PacedLocalSteps(3),
            dataclasses.replace(free, payloads=frozenset({Payload.UPDATE}), takes=frozenset({ControlledSetting.LOCAL_STEPS})),
        ),
    ]:
        assert rule.traits == traits, rule  # type: ignore[attr-defined]


def test_the_defaults_are_the_papers() -> None:
    assert (SoftSync().groups, Intervals().push, Intervals().fetch, WarmStart(3).workers, SampledClients(0.5).tau) == (1, 1, 1, 1, 10)
    assert {rule.then for rule in (SoftSync(), Buffered(2), WarmStart(3), PacedLocalSteps(3))} == {Asynchronous()}  # type: ignore[attr-defined]
    assert LocalSteps(3).then == BulkSynchronous()
    assert BoundedDelay().delay == Every(3).offset == 0


def test_the_least_settings_are_settings() -> None:
    for make in (
        *(lambda: Bounded(0), lambda: BoundedDelay(0), lambda: Buffered(1), lambda: Intervals(1, 1), lambda: LocalSteps(1)),
        *(lambda: PacedLocalSteps(1), lambda: SoftSync(1), lambda: WarmStart(0, 1), lambda: SampledClients(1.0, 1)),
        *(lambda: Every(1), lambda: Every(4, 3), lambda: Switched(0, 1)),
    ):
        make()


class Due:
    """Half a schedule."""

    def due(self, clock: int) -> bool:
        return True


class Before:
    """The other half."""

    def before(self, clock: int) -> int:
        return 0


AND_MORE = "(slack=-1) lets no worker continue: slack counts steps, so give 0 (lockstep) or more."
NO_SCHEDULE = (
    " does not say when to exchange: give the whole number of steps between exchanges, such as 8, or a schedule, such as Switched(100, 8)."
)
NOBODY_WAITS = "such as Asynchronous() or "


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bounded(-1), "Bounded" + AND_MORE),
        (
            lambda: BoundedDelay(-1),
            "BoundedDelay(delay=-1) lets no step start: give 0 (sequential) or more, or None (eventual).",
        ),
        (lambda: Buffered(0), "Buffered(size=0) would never merge: give 1 contribution (each by itself) or more."),
        (lambda: Intervals(0, 1), "Intervals(push=0, fetch=1) would never exchange: both count steps, so give 1 (every step) or more."),
        (lambda: Intervals(1, 0), "Intervals(push=1, fetch=0) would never exchange: both count steps, so give 1 (every step) or more."),
        (
            lambda: LocalSteps(0),
            "LocalSteps(tau=0) would never exchange: tau is the number of steps between exchanges, so give 1 or more.",
        ),
        (lambda: LocalSteps(8.5), "LocalSteps(tau=8.5)" + NO_SCHEDULE),  # type: ignore[arg-type]
        (lambda: LocalSteps(Due()), "…" + NO_SCHEDULE),  # type: ignore[arg-type]
        (lambda: LocalSteps(Before()), "…" + NO_SCHEDULE),  # type: ignore[arg-type]
        (lambda: PacedLocalSteps(0), "PacedLocalSteps(tau=0) would never exchange: give 1 step or more."),
        (
            lambda: PacedLocalSteps(2, Bounded(3)),
            "PacedLocalSteps(then=Bounded(slack=3)) would have workers wait for others that take fewer steps: give a rule under which "
            f"nobody waits for other workers, {NOBODY_WAITS}Buffered(4).",
        ),
        (lambda: SampledClients(0.0), "SampledClients(fraction=0.0) is no part of the workers: give more than 0 and at most 1."),
        (lambda: SampledClients(1.5), "SampledClients(fraction=1.5) is no part of the workers: give more than 0 and at most 1."),
        (
            lambda: SampledClients(0.5, 0),
            "LocalSteps(tau=0) would never exchange: tau is the number of steps between exchanges, so give 1 or more.",
        ),
        (lambda: SoftSync(0), "SoftSync(groups=0) has no group to merge: give 1 (all workers in one group) or more."),
        (lambda: WarmStart(-1), "WarmStart(steps=-1, workers=1) cannot be: give 0 steps or more, and 1 worker or more."),
        (lambda: WarmStart(2, 0), "WarmStart(steps=2, workers=0) cannot be: give 0 steps or more, and 1 worker or more."),
        (
            lambda: WarmStart(2, 1, Bounded(3)),
            "WarmStart(then=Bounded(slack=3)) would have the first workers wait for the others, who have not started: give a rule under "
            f"which nobody waits for other workers, {NOBODY_WAITS}Intervals().",
        ),
        (lambda: Every(0), "Every(0, offset=0) is no schedule: give 1 step or more, and an offset from 0 to below that."),
        (lambda: Every(4, 4), "Every(4, offset=4) is no schedule: give 1 step or more, and an offset from 0 to below that."),
        (lambda: Every(4, -1), "Every(4, offset=-1) is no schedule: give 1 step or more, and an offset from 0 to below that."),
        (lambda: Switched(-1, 2), "Switched(-1, 2) is no schedule: give 0 synchronous steps or more, and 1 local step or more."),
        (lambda: Switched(3, 0), "Switched(3, 0) is no schedule: give 0 synchronous steps or more, and 1 local step or more."),
    ],
)
def test_a_refusal_names_what_was_given_the_reason_and_the_remedy(make: Callable[[], object], message: str) -> None:
    with pytest.raises(CompositionError) as refusal:
        make()
    assert re.fullmatch(re.escape(message).replace("…", r"LocalSteps\(tau=.* object at .*\)"), str(refusal.value))
