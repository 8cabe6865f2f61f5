"""Who was there when is in the page and in the trace, where workers have come or gone; a run of a fixed crew shows nothing of it."""

from __future__ import annotations

import random

import pytest
from toy import Toy

import polyrhythm as pr
from polyrhythm.core.kernel.events import AnyEvent, CrewChanged, Ended, Faulted, Restarted, Started, Stepped
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.hardware.faults import Crash
from polyrhythm.tools.report.page import page
from polyrhythm.tools.report.presence import ENDED, LEFT, LOST, Presence, changes, counted, presences, present
from polyrhythm.tools.report.rows import sheet
from polyrhythm.tools.report.series import series_of
from polyrhythm.tools.report.trace import records

from .scenes import outcome


def run_of(events: list[AnyEvent], seconds: float, lost: tuple[str, ...] = ()) -> Outcome:
    summary = Summary("allreduce", 3, "simulator", "lan", 7, 10, 100, None, seconds, 0, 0, {"loss": 1.0}, lost=list(lost))
    return Outcome(summary, events, state="ended")


def changed(time: float, epoch: int, members: tuple[str, ...], joined: tuple[str, ...] = (), left: tuple[str, ...] = ()) -> CrewChanged:
    return CrewChanged(time, members[0], epoch, members, joined, left)


A, B, C, D = (f"worker/{rank}" for rank in range(4))
CHANGING = run_of(
    [
        *(Started(0.0, name) for name in (A, B, C, "server/0")),
        Faulted(2.0, B, "crashed"),
        changed(2.5, 1, (A, C), left=(B,)),
        Started(3.0, D),
        changed(4.0, 2, (A, C, D), joined=(D,)),
        changed(6.0, 3, (A, D), left=(C,)),
        Stepped(7.0, A, 10, 100, 0),
        Ended(9.0, A, 0, 0),
        Ended(9.5, D, 0, 0),
    ],
    10.0,
    lost=(B,),
)


def test_each_worker_is_there_from_when_it_joined_until_it_left_was_lost_or_the_run_ended() -> None:
    assert presences(CHANGING) == [
        Presence(A, 0.0, 9.0, ENDED, False),
        Presence(B, 0.0, 2.0, LOST, False),
        Presence(C, 0.0, 6.0, LEFT, False),
        Presence(D, 4.0, 9.5, ENDED, True),
    ]
    assert counted(presences(CHANGING)) == [(0.0, 3), (2.0, 2), (4.0, 3), (6.0, 2)]


def test_a_worker_that_an_engine_starts_again_has_two_bars() -> None:
    events: list[AnyEvent] = [Started(0.0, A), Started(0.1, B), Restarted(3.0, B, "killed"), Started(5.0, B)]
    assert [(each.begin, each.end, each.how) for each in presences(run_of(events, 8.0)) if each.worker == B] == [
        (0.1, 3.0, LOST),
        (5.0, 8.0, ENDED),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_the_number_of_workers_is_that_of_the_members(seed: int) -> None:
    draw = random.Random(seed)
    members = [A, B, C]
    events: list[AnyEvent] = [Started(0.0, name) for name in members]
    sizes = [(0.0, 3)]
    for epoch in range(1, 9):
        left = draw.sample(members, draw.randrange(len(members)))
        joined = [f"worker/{10 * epoch + k}" for k in range(draw.randrange(3))]
        if not left and not joined:
            continue
        members = [name for name in members if name not in left] + joined
        events.append(changed(float(epoch), epoch, tuple(members), tuple(joined), tuple(left)))
        sizes.append((float(epoch), len(members)))
    assert counted(presences(run_of(events, 10.0))) == sizes


def test_the_page_draws_and_the_trace_counts_the_workers_of_a_changing_crew() -> None:
    assert "Who was there: allreduce" in page([CHANGING], "changing")
    assert "allreduce continued without worker/1; worker/2 left; worker/3 joined." in sheet(series_of([CHANGING]), None).remarks
    found = list(records([CHANGING]))
    assert [each["args"]["workers"] for each in found if each["name"] == "workers"] == [3, 2, 3, 2]
    assert [each["args"]["epoch"] for each in found if each["name"] == "crew"] == [1, 2, 3]


def test_a_lost_worker_of_a_run_that_goes_on_is_seen_too() -> None:
    on = pr.Simulator(network="slow", faults=(Crash("worker/2", 0.004),))
    gone = pr.run(Toy(), workers=3, strategy="easgd", on=on, seed=1).outcome
    assert gone.summary.lost == ["worker/2"]
    assert [each.how for each in presences(gone)] == [ENDED, ENDED, LOST]


def test_bars_are_in_the_order_in_which_workers_came() -> None:
    E, F = "worker/4", "worker/5"
    events: list[AnyEvent] = [Started(0.01 * (2 - k), name) for k, name in enumerate((A, B, C))]
    events += [changed(1.0, 1, (A, C), left=(B,)), changed(2.0, 2, (A, C, F), joined=(F,)), changed(3.0, 3, (A, C, F, E), joined=(E,))]
    (panel,) = present(series_of([run_of(events, 5.0, lost=(B,))]))
    text = str(panel.live)
    assert f"'sort': {[A, B, C, F, E]}" in text
    assert "2 s – 5 s" in text


def test_nothing_of_it_is_shown_where_nobody_has_come_or_gone() -> None:
    fixed = outcome("allreduce", workers=4)
    assert not changes(presences(fixed))
    assert present(series_of([fixed])) == []
    assert not [each for each in records([fixed]) if each["name"] == "workers"]
