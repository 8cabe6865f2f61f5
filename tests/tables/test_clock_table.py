"""The clock table under random schedules: the bound is never violated, and every update is merged exactly once."""

from __future__ import annotations

import random

import pytest

from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, LocalSteps, SoftSync
from polyrhythm.core.protocols.consistency import Conditions, Consistency
from polyrhythm.core.tables.clock_table import ClockTable, Flushed
from polyrhythm_reproductions.jobs import clock_schedules
from polyrhythm_reproductions.jobs.clock_schedules import violations

SCHEDULES = 10_000


def test_the_bound_holds_and_no_worker_waits_for_ever_under_ten_thousand_schedules() -> None:
    draw = random.Random(0)
    assert sum(violations(draw, slack=number % 4, workers=1 + number % 3) for number in range(SCHEDULES)) == 0


class Hasty(Bounded):
    """Breaks its promise by one."""

    @property
    def conditions(self) -> Conditions:
        return Bounded(self.slack + 1).conditions


def test_a_rule_that_lets_readers_go_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_schedules, "Bounded", Hasty)
    draw = random.Random(0)
    assert sum(violations(draw, slack=1, workers=3) for _ in range(100)) > 0


@pytest.mark.parametrize("rule", [Bounded(0), BulkSynchronous(), LocalSteps(1, Bounded(0)), SoftSync(1)], ids=repr)
def test_what_all_did_is_merged_at_once_in_rank_order(rule: Consistency) -> None:
    table: ClockTable[str] = ClockTable(rule, ["0", "1", "2"])
    for sender, clock in (("2", 1), ("2", 2), ("0", 1)):
        table.take(Flushed(sender, clock, ""))
        assert table.next_group() == []
    table.take(Flushed("1", 1, ""))
    assert [(flush.sender, flush.clock) for flush in table.next_group()] == [("0", 1), ("1", 1), ("2", 1)]
    assert table.next_group() == []
    table.end("0")
    table.take(Flushed("1", 2, ""))
    assert [(flush.sender, flush.clock) for flush in table.next_group()] == [("1", 2), ("2", 2)]


def test_who_is_lost_is_not_waited_for_and_what_it_sent_counts() -> None:
    table: ClockTable[str] = ClockTable(Bounded(0), ["0", "1"])
    table.take(Flushed("1", 1, ""))
    table.lose("1")
    table.take(Flushed("0", 1, ""))
    assert [flush.sender for flush in table.next_group()] == ["0", "1"]
    table.take(Flushed("0", 2, ""))
    assert [flush.sender for flush in table.next_group()] == ["0"]
    assert table.may_read(2)


def test_no_worker_waits_where_the_consistency_does_not() -> None:
    table: ClockTable[str] = ClockTable(Asynchronous(), ["0", "1"])
    for clock in range(1, 4):
        table.take(Flushed("0", clock, ""))
        assert len(table.next_group()) == 1
        assert table.may_read(clock)
