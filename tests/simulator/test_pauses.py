"""What BBR's pauses do to messages, by hand where the answer is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.congestion import Bbr, Fair
from polyrhythm.hardware.network import Network
from polyrhythm.simulator.flows import Flows

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


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3000), st.floats(0, 40)), max_size=12), st.integers(0, 9))
def test_everything_arrives_and_never_much_later_than_its_pauses(begins: list[tuple[int, int, int, float]], seed: int) -> None:
    flows, came = Flows(PAUSING, 4, seed), []
    for a, b, nbytes, time in sorted(begins, key=lambda begin: begin[3]):
        while flows.next_time() <= time:
            came += flows.advance(flows.next_time())
        flows.start(time, f"worker/{a}", f"worker/{b}", nbytes, None)
    while (now := flows.next_time()) < math.inf:
        came += flows.advance(now)
    assert len(came) == len(begins)


def test_a_cut_within_a_pause_holds_until_both_have_ended() -> None:
    flows = Flows(PAUSING, 2)
    flows.start(0.0, "worker/0", "worker/1", 1500, "message")
    flows.block(11.0, "worker/0", "worker/1", blocked=True)
    flows.block(15.0, "worker/0", "worker/1", blocked=False)
    assert flows.advance(20.4) == []
    assert flows.advance(20.5) == ["message"]


def test_who_dies_within_a_pause_leaves_nothing() -> None:
    flows = Flows(PAUSING, 2)
    flows.start(0.0, "worker/0", "worker/1", 1500, "message")
    assert flows.forget(11.0, "worker/1") == ["message"]
    flows.start(11.5, "worker/0", "worker/1", 500, "again")
    flows.advance(13.0)
    assert flows.advance(17.0) == ["again"]


def test_inside_a_host_nothing_pauses() -> None:
    flows = Flows(PAUSING, 1)
    flows.start(0.0, "worker/0", "worker/0", 10**12, "message")
    flows.advance(100.0)
    assert flows.next_time() == pytest.approx(10**12 / 6.4e9, rel=1e-6)


def test_the_description_says_it_and_refuses_what_cannot_be() -> None:
    assert '"type": "Bbr"' in networks.to_json(PAUSING)
    assert PLAIN.congestion == Fair()
    for wrong in (Bbr(every=0.0), Bbr(seconds=-1.0), Bbr(seconds=math.inf), Bbr(every=math.nan)):
        with pytest.raises(CompositionError, match="congestion control of the network 'plain' pauses every"):
            replace(PLAIN, congestion=wrong)
