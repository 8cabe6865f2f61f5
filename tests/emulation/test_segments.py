"""Links and distances on a clock of our own: rates, delays, shares, queues, jitter, loss."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from polyrhythm.hardware import network
from polyrhythm.hardware.changes import ChangeEntry
from polyrhythm.hardware.network import Network, Site
from polyrhythm.hardware.timetable import timetable
from polyrhythm.tools.emulation.fabric import Fabric
from polyrhythm.tools.emulation.fair_link import FairLink
from polyrhythm.tools.emulation.impairments import Amount, Impairments
from polyrhythm.tools.emulation.segments import Distance
from polyrhythm.tools.emulation.ways import LEAST_QUEUE, ROUND_TRIPS, fair_links, least_latency, ways

PLAIN = Network.uniform("plain", 1000.0, 2.0)  # bytes per second, seconds
Sent = tuple[float, int, int, int]  # when, from, to, bytes


def fabric(joined: Network, hosts: int, impairments: Impairments | None = None) -> Fabric:
    return Fabric(ways(joined, hosts, impairments or Impairments(), fair_links(joined, hosts)))


def arrivals(under_test: Fabric, sent: Sequence[Sent], flows: Sequence[str] = ()) -> list[tuple[float, int, bytes]]:
    """When each frame arrives, where, and its number as text; `flows` names the connection of each, by default its pair of hosts."""
    found: list[tuple[float, int, bytes]] = []

    def until(now: float) -> None:
        while under_test.next_time() <= now:
            when = under_test.next_time()
            found.extend((when, target, frame) for target, frame in under_test.advance(when))

    for number, (when, source, target, nbytes) in enumerate(sent):
        until(when)
        flow = flows[number] if flows else f"{source}-{target}"
        under_test.send(when, (source, target), flow.encode(), nbytes, str(number).encode())
    until(float("inf") if under_test.next_time() == float("inf") else 1e9)
    return found


def test_a_packet_alone_takes_its_length_over_the_rate_once_and_one_latency() -> None:
    assert arrivals(fabric(PLAIN, 2), [(0.0, 0, 1, 500)]) == [(2.5, 1, b"0")]


def test_a_packet_without_payload_takes_one_latency() -> None:
    assert arrivals(fabric(PLAIN, 2), [(1.0, 1, 0, 0)]) == [(3.0, 0, b"0")]


def test_the_slower_of_two_links_sets_the_pace() -> None:
    home = Network.uniform("asymmetric", 100.0, 0.0, ingress=1000.0)
    got = arrivals(fabric(home, 2), [(0.0, 0, 1, 100)] * 5)
    assert [when for when, _, _ in got] == pytest.approx([1, 2, 3, 4, 5])


def test_a_bandwidth_changes_at_its_time() -> None:
    slower = replace(PLAIN, changes=(ChangeEntry(at=1.0, host=0, egress=100.0),))
    links = fair_links(slower, 2)
    under_test = Fabric(ways(slower, 2, Impairments(), links))
    under_test.plan(10.0, [(change.at, links[change.link], change.bandwidth) for change in timetable(slower, 2)])
    got = arrivals(under_test, [(10.0, 0, 1, 500), (10.0, 0, 1, 1000), (10.0, 0, 1, 100)])
    assert [when for when, _, _ in got] == pytest.approx([12.5, 13.5, 14.5])  # the second left at 10.5, at the old rate


def test_hosts_of_a_shared_medium_take_turns_in_both_directions_and_inside_it_a_packet_is_sent_twice() -> None:
    sites = [Site("air", 1e6, 1e6, medium=1000.0), Site("wired", 1e6, 1e6)]
    air = Network.joined("home", sites, {("air", "wired"): 0.0, ("wired", "air"): 0.0}, {})  # hosts 0 and 1 are stations
    both = arrivals(fabric(air, 4), [sent for _ in range(10) for sent in ((0.0, 0, 2, 100), (0.0, 3, 1, 100))])
    assert max(when for when, _, _ in both) == pytest.approx(2.0, abs=0.01)
    inside = arrivals(fabric(air, 4), [(0.0, 0, 1, 100)] * 10)
    assert max(when for when, _, _ in inside) == pytest.approx(2.0, abs=0.01)
    # as in the simulator, each passage has an equal share: a third of the air each
    mixed = arrivals(fabric(air, 4), [sent for _ in range(10) for sent in ((0.0, 0, 1, 100), (0.0, 3, 1, 100))])
    assert [max(when for when, _, frame in mixed if int(frame) % 2 == side) for side in (0, 1)] == pytest.approx([3.0, 3.0], abs=0.21)


def test_the_jitter_of_a_network_varies_latencies_in_the_lab_too() -> None:
    varying = Network("varying", (Site("far", 1e9, 1e9, 5.0, jitter=2.0),), ((0.0,),), ((float("inf"),),))
    late = [when - 20.0 * int(frame) for when, _, frame in arrivals(fabric(varying, 2), [(20.0 * index, 0, 1, 1) for index in range(40)])]
    assert all(3.0 <= each <= 7.01 for each in late)
    assert max(late) - min(late) > 3.0


def test_two_flows_that_leave_one_host_share_its_egress() -> None:
    got = arrivals(fabric(PLAIN, 3), [sent for _ in range(10) for sent in ((0.0, 0, 1, 100), (0.0, 0, 2, 100))])
    last = {target: when for when, target, _ in got}
    assert last[1] == pytest.approx(4.0, abs=0.11)
    assert last[2] == pytest.approx(4.0, abs=0.11)


def test_two_flows_that_enter_one_host_share_its_ingress_also_where_one_sends_more() -> None:
    eager = [(0.0, 1, 0, 100)] * 30 + [(0.0, 2, 0, 100)] * 10
    got = arrivals(fabric(PLAIN, 3), eager)
    modest = [when for when, _, frame in got if int(frame) >= 30]
    assert modest[-1] == pytest.approx(4.0, abs=0.11)  # half the rate, as if the other sent as little
    assert got[-1][0] == pytest.approx(6.0, abs=0.11)  # and the line was never idle


def test_slow_senders_together_fill_a_faster_ingress() -> None:
    home = Network.uniform("asymmetric", 100.0, 0.0, ingress=500.0)
    got = arrivals(fabric(home, 6), [(0.0, source, 0, 100) for source in range(1, 6) for _ in range(10)])
    assert got[-1][0] == pytest.approx(10.0, rel=0.1)


def test_an_acknowledgement_does_not_wait_behind_the_data_of_another_connection() -> None:
    sent = [(0.0, 0, 1, 100)] * 20 + [(0.05, 0, 1, 0)]
    got = arrivals(fabric(PLAIN, 2), sent, ["data"] * 20 + ["other"])
    assert next(when for when, _, frame in got if frame == b"20") == pytest.approx(2.2, abs=0.11)


def test_packets_of_one_connection_stay_in_order() -> None:
    sent = [(0.001 * number, 0, 1, number * 37 % 100) for number in range(100)]
    got = arrivals(fabric(PLAIN, 2, Impairments(jitter=Amount(1.5))), sent)
    assert [int(frame) for _, _, frame in got] == list(range(100))


def test_what_waits_beyond_the_limit_is_dropped_from_the_longest_queue() -> None:
    tight = Fabric([[(), (FairLink(1000.0, 1000.0),)], [(), ()]])
    sent = [(0.0, 0, 1, 100)] * 20 + [(0.0, 0, 1, 100)]
    got = arrivals(tight, sent, ["greedy"] * 20 + ["modest"])
    assert tight.traffic.dropped == 10
    assert b"20" in [frame for _, _, frame in got]
    assert [int(frame) for _, _, frame in got if frame != b"20"] == list(range(10))


def test_sites_share_what_lies_between_them_one_way_each() -> None:
    far = network.load("wan-3")
    got = arrivals(fabric(far, 3), [(0.0, 0, 2, 1_000_000)])
    slowest = far.capacity[0][2]
    assert got[0][0] == pytest.approx(far.latency[0][2] + 1_000_000 / slowest)
    paths = ways(far, 6, Impairments(), fair_links(far, 6))
    assert paths[0][4][1:3] != paths[4][0][1:3]
    assert [segment for segment in paths[0][4] if segment in paths[1][5]]  # two pairs of hosts, the same two sites
    assert not [segment for segment in paths[0][1] if segment in paths[1][5][1:]]  # inside a site only egress and ingress


def test_a_queue_holds_a_round_trip_and_never_less_than_the_least() -> None:
    (egress, *_), (least, *_) = (
        ways(each, hosts, Impairments(), fair_links(each, hosts))[0][1] for each, hosts in ((network.load("wan-11"), 11), (PLAIN, 2))
    )
    assert isinstance(egress, FairLink)
    assert isinstance(least, FairLink)
    assert egress.limit == pytest.approx(ROUND_TRIPS * 125e6 * 0.230)  # Virginia's longest round trip
    assert least.limit == LEAST_QUEUE


def test_loss_is_drawn_from_the_seed_at_the_declared_rate() -> None:
    def lost(seed: int) -> list[int]:
        sent = [(float(number), 0, 1, 1) for number in range(4000)]
        under_test = fabric(PLAIN, 2, Impairments(loss=Amount(0.1), seed=seed))
        came = {int(frame) for _, _, frame in arrivals(under_test, sent)}
        assert under_test.traffic.dropped == 4000 - len(came)
        return [number for number in range(4000) if number not in came]

    assert lost(1) == lost(1) != lost(2)
    assert len(lost(1)) == pytest.approx(400, rel=0.2)


def test_jitter_swings_around_the_latency() -> None:
    got = arrivals(fabric(PLAIN, 2, Impairments(jitter=Amount(0.5))), [(10.0 * number, 0, 1, 0) for number in range(500)])
    delays = [when - 10.0 * number for number, (when, _, _) in enumerate(got)]
    assert min(delays) >= 1.5
    assert max(delays) <= 2.5
    assert sum(delays) / len(delays) == pytest.approx(2.0, abs=0.05)


def test_jitter_and_loss_may_be_those_of_one_pair() -> None:
    impairments = Impairments(loss=Amount(0.0, [(0, 1, 0.999)]))
    under_test = fabric(PLAIN, 2, impairments)
    both = [(float(number), *pair, 1) for number in range(100) for pair in ((0, 1), (1, 0))]
    to = [target for _, target, _ in arrivals(under_test, both)]
    assert to.count(0) == 100
    assert to.count(1) < 5


def test_the_same_packets_arrive_at_the_same_times() -> None:
    sent = [(0.01 * number, *pair, 100) for number, pair in enumerate(itertools.islice(itertools.cycle([(0, 1), (1, 2), (2, 1)]), 300))]
    impairments = Impairments(Amount(0.3), Amount(0.05), 7)
    assert arrivals(fabric(PLAIN, 3, impairments), sent) == arrivals(fabric(PLAIN, 3, impairments), sent)


def test_a_distance_never_goes_back_in_time() -> None:
    got = arrivals(Fabric([[(), (Distance(0.1, jitter=5.0),)], [(), ()]]), [(float(number), 0, 1, 0) for number in range(50)])
    assert all(when >= number for number, (when, _, _) in enumerate(got))


def test_one_network_file_means_the_same_to_simulator_and_lab(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text(
        json.dumps(
            {
                "name": "two",
                "sites": [{"name": "a", "egress": 1000, "uplink": 300, "latency": 0.5}, {"name": "b", "egress": 1000}],
                "links": [{"from": "a", "to": "b", "latency": 1}],
            }
        )
    )
    joined = network.load(path)
    assert arrivals(fabric(joined, 4), [(0.0, 0, 2, 300), (0.0, 1, 3, 300)])[-1][0] == pytest.approx(3.0)
    assert least_latency(joined, 4) == 0.0
