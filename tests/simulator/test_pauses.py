"""What BBR's pauses do to messages, by hand where the result is known."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.simulator.flows import Flows
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, DeadlockError
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.congestion import Bbr, Fair
from polyrhythm.hardware.faults import Disconnect
from polyrhythm.hardware.network import Network, Site
from polyrhythm.hardware.network_json import network_json
from polyrhythm.tools.measuring.links import survey_job

PLAIN = Network.uniform("plain", 100.0, 0.5)
PAUSING = replace(PLAIN, congestion=Bbr(every=10.0, seconds=2.0))
PAUSE = 3.0
"""Two seconds, and a round trip of one."""


def in_turn(network: Network, nbytes: int, gap: float, messages: int, seed: int = 0) -> list[float]:
    """When each of so many messages from worker 0 to worker 1 arrives, each sent `gap` seconds after the one before has come."""
    flows, now, came = Flows(network, 2, seed), 0.0, []
    for _ in range(messages):
        flows.start(now, "worker/0", "worker/1", nbytes, None)
        while not flows.advance(now):
            now = flows.next_time()
        came.append(now)
        now += gap
        flows.advance(now)
    assert flows.next_time() == math.inf
    return came


def test_a_long_message_pauses_every_ten_seconds_of_sending() -> None:
    assert in_turn(PAUSING, 2500, 0.0, 1) == [25.0 + 2 * PAUSE + 0.5]
    assert in_turn(PAUSING, 900, 0.0, 1) == [9.5]


def test_others_have_the_line_meanwhile() -> None:
    flows = Flows(PAUSING, 3)
    flows.start(0.0, "worker/0", "worker/1", 2000, "early")
    flows.advance(8.0)
    flows.start(8.0, "worker/0", "worker/2", 1000, "late")
    came = {}
    while (now := flows.next_time()) < math.inf:
        came |= dict.fromkeys(flows.advance(now), now)
    # early: 900 bytes until it stops at 10; from 13 on 250 until late stops at 18, 300 until 21, 100 until it stops at 23; the rest from 26
    # late: 100 bytes from 8 to 10, 300 until 13, 250 until it stops at 18; 100 from 21 to 23, the other 250 by 25.5
    assert came == {"late": 25.5 + 0.5, "early": 30.5 + 0.5}


def test_who_was_silent_sees_its_round_trip_at_the_next_begin() -> None:
    came = in_turn(PAUSING, 500, 11.0, 6)
    assert came == pytest.approx([5.5 + 16.5 * number for number in range(6)])


def test_pauses_are_drawn_from_the_seed() -> None:
    draws = {seed: in_turn(PAUSING, 300, 0.1, 40, seed) for seed in range(8)}
    assert draws[3] == in_turn(PAUSING, 300, 0.1, 40, 3)
    assert len({came[-1] for came in draws.values()}) > 1
    without = in_turn(PLAIN, 300, 0.1, 40)[-1]
    for came in draws.values():
        pauses = (came[-1] - without) / PAUSE
        assert pauses == pytest.approx(round(pauses))
        assert 0 <= pauses <= without / 10


def test_what_ends_when_it_would_stop_has_ended() -> None:
    assert in_turn(PAUSING, 1000, 0.0, 1) == [10.5]


def test_a_pause_waits_for_the_way_there_and_the_way_back() -> None:
    sites = [Site("here", 100.0, 100.0), Site("there", 100.0, 100.0)]
    far = Network.joined("far", sites, {("here", "there"): 0.1, ("there", "here"): 3.0}, {})
    assert in_turn(replace(far, congestion=Bbr(10.0, 2.0)), 1500, 0.0, 1) == [pytest.approx(15.0 + 2.0 + 3.1 + 0.1)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3000), st.floats(0, 40)), max_size=12), st.integers(0, 9))
def test_everything_arrives_whatever_the_others_do(begins: list[tuple[int, int, int, float]], seed: int) -> None:
    flows, came = Flows(PAUSING, 4, seed), []
    for a, b, nbytes, time in sorted(begins, key=lambda begin: begin[3]):
        while flows.next_time() <= time:
            came += flows.advance(flows.next_time())
        flows.start(time, f"worker/{a}", f"worker/{b}", nbytes, None)
    while (now := flows.next_time()) < math.inf:
        came += flows.advance(now)
    assert len(came) == len(begins)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_order_of_calls_at_one_instant_changes_nothing(order: tuple[int, ...]) -> None:
    flows = Flows(PAUSING, 4)
    flows.start(0.0, "worker/0", "worker/1", 2000, "first")
    deeds = [
        lambda: flows.start(10.0, "worker/2", "worker/1", 500, "second"),
        lambda: flows.start(10.0, "worker/0", "worker/3", 500, "third"),
        lambda: flows.block(10.0, "worker/2", "worker/3", blocked=True),
        lambda: flows.advance(10.0),
    ]
    for index in order:
        deeds[index]()
    came = {}
    while (now := flows.next_time()) < math.inf:
        came |= dict.fromkeys(flows.advance(now), now)
    # 300 bytes each until the first goes on at 13, then half of a line each; the first stops once more at 23
    assert came == {"second": 17.0 + 0.5, "third": 17.0 + 0.5, "first": 28.0 + 0.5}


def test_a_crowd_that_stops_together_goes_on_together() -> None:
    flows = Flows(PAUSING, 101)
    for sender in range(1, 101):
        flows.start(0.0, f"worker/{sender}", "worker/0", 11, sender)
    assert flows.advance(11.0 + PAUSE + 0.5 - 0.001) == []
    assert len(flows.advance(11.0 + PAUSE + 0.5 + 0.001)) == 100


def test_a_cut_within_a_pause_holds_until_both_have_ended() -> None:
    flows = Flows(PAUSING, 2)
    flows.start(0.0, "worker/0", "worker/1", 1500, "message")
    flows.block(11.0, "worker/0", "worker/1", blocked=True)
    flows.block(15.0, "worker/0", "worker/1", blocked=False)
    assert flows.advance(20.4) == []
    assert flows.advance(20.5) == ["message"]


def test_a_pause_within_a_cut_is_none() -> None:
    flows = Flows(PAUSING, 2)
    flows.start(0.0, "worker/0", "worker/1", 500, "message")
    flows.block(1.0, "worker/0", "worker/1", blocked=True)
    assert flows.next_time() == math.inf
    flows.block(11.0, "worker/0", "worker/1", blocked=False)
    assert flows.next_time() == 15.0
    assert flows.advance(15.5) == ["message"]


def test_a_cut_without_an_end_is_still_a_deadlock() -> None:
    survey = survey_job(2)
    simulator = Simulator(
        network=replace(networks.load("slow"), congestion=Bbr()), faults=[Disconnect("worker/0", "worker/1", 0.1, math.inf)]
    )
    with pytest.raises(DeadlockError):
        simulator.execute(survey, lambda event: None)


def test_who_dies_within_a_pause_leaves_nothing() -> None:
    flows = Flows(PAUSING, 2)
    flows.start(0.0, "worker/0", "worker/1", 1500, "message")
    assert flows.forget(10.5, "worker/1") == ["message"]
    assert flows.next_time() == math.inf
    flows.start(11.5, "worker/0", "worker/1", 1100, "again")
    assert flows.advance(11.5 + 11.0 + PAUSE + 0.5 - 0.1) == []
    assert flows.advance(11.5 + 11.0 + PAUSE + 0.5) == ["again"]


def test_a_new_connection_begins_anew() -> None:
    for seed in range(6):
        flows = Flows(PAUSING, 2, seed)
        flows.start(0.0, "worker/0", "worker/1", 1500, "message")
        flows.forget(5.0, "worker/1")
        flows.start(6.0, "worker/0", "worker/1", 900, "again")
        assert flows.advance(15.5) == ["again"]


def test_inside_a_host_nothing_pauses() -> None:
    flows = Flows(PAUSING, 1)
    flows.start(0.0, "worker/0", "worker/0", 10**12, "message")
    flows.advance(100.0)
    assert flows.next_time() == pytest.approx(10**12 / 6.4e9, rel=1e-6)


def test_the_description_states_it_and_refuses_what_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "pausing.json"
    file.write_text(network_json(PAUSING))
    assert networks.load(file).congestion == PAUSING.congestion
    assert PLAIN.congestion == Fair()
    for every, seconds in ((0.0, 0.2), (1e-20, 0.0), (math.inf, 0.2), (math.nan, 0.2), (10.0, -1.0), (10.0, math.inf)):
        with pytest.raises(CompositionError, match="is not possible: give finite numbers"):
            Bbr(every, seconds)
    file.write_text(network_json(PAUSING).replace('"every": 10.0', '"every": 0.0'))
    with pytest.raises(CompositionError, match="or more for every"):
        networks.load(file)
