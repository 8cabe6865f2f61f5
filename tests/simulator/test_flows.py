"""The sharing of links: by hand where the result is known, against a plain reference everywhere else."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.core.simulator.connection import Connection
from polyrhythm.core.simulator.flows import Flows
from polyrhythm.core.simulator.sharing_parts import BEST, PORTABLE, SharingParts
from polyrhythm.hardware.changes import ChangeEntry
from polyrhythm.hardware.network import Access, Network, Site, load
from polyrhythm.hardware.placement import Local, RoundRobin, WithWorkers
from polyrhythm.hardware.timetable import timetable

from .reference import Begin, deliveries, link_of, links_of

PLAIN = Network.uniform("plain", 100.0, 0.0)


def run(network: Network, begins: list[Begin], workers: int = 8, parts: SharingParts = BEST) -> dict[int, float]:
    """When each message is delivered, by its place in `begins`."""
    flows = Flows(network, workers, parts=parts)
    times: dict[int, float] = {}
    coming = sorted(range(len(begins)), key=lambda index: begins[index].time)
    changes = timetable(network, workers)
    while True:
        now = min(flows.next_time(), begins[coming[0]].time if coming else math.inf)
        if changes and changes[0].at <= now < math.inf:
            at, link, bandwidth, _ = changes.pop(0)
            for token in flows.advance(at):
                times[int(str(token))] = at
            flows.change(at, link, bandwidth)
            continue
        if now == math.inf:
            return times
        for token in flows.advance(now):
            assert isinstance(token, int)
            times[token] = now
        while coming and begins[coming[0]].time == now:
            index = coming.pop(0)
            flows.start(*begins[index], index)


def begin(sender: int, receiver: int, nbytes: int, time: float = 0.0) -> Begin:
    return Begin(time, f"worker/{sender}", f"worker/{receiver}", nbytes)


def test_one_message_takes_its_bytes_over_the_bandwidth_plus_one_latency() -> None:
    assert run(Network.uniform("far", 100.0, 3.0), [begin(0, 1, 1000)]) == {0: 13.0}


def test_two_flows_on_one_link_each_get_half() -> None:
    assert run(PLAIN, [begin(0, 1, 1000), begin(0, 2, 1000)]) == {0: 20.0, 1: 20.0}
    assert run(PLAIN, [begin(1, 0, 1000), begin(2, 0, 1000)]) == {0: 20.0, 1: 20.0}


def test_the_rest_takes_all_when_one_has_ended() -> None:
    assert run(PLAIN, [begin(0, 1, 500), begin(0, 2, 1000)]) == {0: 10.0, 1: 15.0}


def test_a_connection_that_is_made_again_may_end_when_the_first_would_have() -> None:
    flows = Flows(PLAIN, 2)
    flows.start(0.0, "worker/0", "worker/1", 1500, "first")
    flows.forget(5.0, "worker/1")
    flows.start(6.0, "worker/0", "worker/1", 900, "second")
    assert flows.next_time() == 15.0
    assert flows.advance(15.0) == ["second"]


def test_a_third_flow_from_another_host_contends_only_where_paths_meet() -> None:
    assert run(PLAIN, [begin(0, 1, 1000), begin(0, 2, 1000), begin(3, 4, 1000)]) == {0: 20.0, 1: 20.0, 2: 10.0}
    assert run(PLAIN, [begin(0, 1, 1000), begin(0, 2, 1000), begin(3, 2, 1000)]) == {0: 20.0, 1: 20.0, 2: 20.0}


def test_what_others_cannot_use_goes_to_those_who_can() -> None:
    # worker 0 sends to 1, 2 and 3 at a third each; worker 4 takes the other two thirds of 3's ingress.
    times = run(PLAIN, [begin(0, 1, 1000), begin(0, 2, 1000), begin(0, 3, 1000), begin(4, 3, 2000)])
    assert times == pytest.approx({0: 30.0, 1: 30.0, 2: 30.0, 3: 30.0}, rel=1e-12)


def test_sending_and_receiving_do_not_contend() -> None:
    assert run(PLAIN, [begin(0, 1, 1000), begin(1, 0, 1000)]) == {0: 10.0, 1: 10.0}


def test_asymmetric_access_is_slow_in_one_direction_only() -> None:
    home = Network.uniform("home", 20.0, 0.0, ingress=100.0)
    assert run(home, [begin(sender, 0, 200) for sender in (1, 2, 3, 4, 5)]) == dict.fromkeys(range(5), 10.0)
    assert run(home, [begin(sender, 0, 200) for sender in range(1, 8)])[0] == pytest.approx(14.0, rel=1e-12)
    slow_host = Network("one slow", PLAIN.sites, PLAIN.latency, PLAIN.capacity, accesses=((1, Access(10.0, 50.0)),))
    assert run(slow_host, [begin(1, 0, 100), begin(0, 1, 100)]) == {0: 10.0, 1: 2.0}


def two_sites(capacity: float = math.inf) -> Network:
    sites = [Site("a", 100.0, 100.0, 0.0, uplink=120.0), Site("b", 100.0, 100.0, 0.0, downlink=90.0)]
    way = {("a", "b"): capacity, ("b", "a"): math.inf}
    return Network.joined("two", sites, {("a", "b"): 1.0, ("b", "a"): 2.0}, way)


def test_sites_share_their_uplink_and_downlink() -> None:
    # workers 0-3 are at site a, 4-7 at b: both pairs cross a's uplink (120) and b's downlink (90), so 45 each.
    assert run(two_sites(), [begin(0, 4, 450), begin(1, 5, 450)]) == {0: 11.0, 1: 11.0}
    # The way back passes neither, and what stays inside a site passes no shared link.
    assert run(two_sites(), [begin(4, 0, 450), begin(5, 1, 450), begin(2, 3, 450)]) == {0: 6.5, 1: 6.5, 2: 4.5}


def wireless(medium: float = 60.0) -> Network:
    """An air that ten hosts share, and a line from the access point to two more."""
    sites = [Site("air", 100.0, 100.0, 0.0, medium=medium), Site("wired", 100.0, 100.0)]
    pairs = [("air", "wired"), ("wired", "air")]
    return Network.joined("home", sites, dict.fromkeys(pairs, 0.0), {})


def test_stations_of_a_wireless_network_share_one_medium_in_both_directions() -> None:
    # workers 0-3 are stations, 4-7 wired: up and down share the air.
    assert run(wireless(), [begin(0, 4, 300), begin(5, 1, 300)]) == {0: 10.0, 1: 10.0}
    assert run(wireless(), [begin(0, 4, 600)]) == {0: 10.0}
    # between stations a message takes the air twice: to the access point, and from it
    assert run(wireless(), [begin(0, 1, 300)]) == {0: 10.0}
    assert run(wireless(), [begin(0, 1, 200), begin(2, 4, 200)]) == {0: 10.0, 1: 10.0}
    # the wired hosts do not notice
    assert run(wireless(), [begin(4, 5, 1000), begin(0, 1, 300)]) == {0: 10.0, 1: 10.0}
    falling = replace(wireless(), changes=(ChangeEntry(at=5.0, site="air", medium=30.0),))
    assert run(falling, [begin(0, 1, 300)]) == {0: 15.0}


def test_a_latency_varies_by_its_jitter_under_a_seed_and_messages_of_one_connection_keep_their_order() -> None:
    site = Site("far", 100.0, 100.0, 5.0, jitter=2.0)
    varying = Network("varying", (site,), ((0.0,),), ((math.inf,),))
    begins = [begin(sender, 7, 1, time=20.0 * index) for index in range(40) for sender in range(3)]
    times = run(varying, begins)
    late = [times[index] - each.time for index, each in enumerate(begins)]
    assert all(3.0 <= each <= 7.1 for each in late)
    assert len(set(late)) > 100
    assert max(late) - min(late) > 3.0
    assert times == run(varying, begins)
    crowd = run(varying, [begin(0, 1, 1) for _ in range(50)])
    assert [crowd[index] for index in range(50)] == sorted(crowd.values())
    assert run(replace(varying, sites=(replace(site, jitter=0.0),)), begins[:1]) == {0: 5.01}


def test_a_pair_of_sites_shares_its_capacity_in_its_direction() -> None:
    assert run(two_sites(capacity=10.0), [begin(0, 4, 100), begin(1, 5, 100), begin(4, 0, 100)]) == {0: 21.0, 1: 21.0, 2: 3.0}


def test_messages_of_a_pair_go_one_after_the_other_and_arrive_in_order() -> None:
    times = run(Network.uniform("far", 100.0, 5.0), [begin(0, 1, 1000), begin(0, 1, 10), begin(0, 1, 0), begin(0, 2, 1000)])
    assert times == pytest.approx({0: 25.0, 1: 25.1, 2: 25.1, 3: 25.0}, rel=1e-12)


def test_a_message_without_bytes_takes_one_latency() -> None:
    assert run(Network.uniform("far", 100.0, 5.0), [begin(0, 1, 0)]) == {0: 5.0}


def test_inside_one_host_only_the_local_time_counts() -> None:
    network = Network(
        "with", PLAIN.sites, PLAIN.latency, PLAIN.capacity, placement=WithWorkers(), local=Local(latency=0.5, bandwidth=1000.0)
    )
    near, far = Begin(0.0, "worker/0", "server/0", 1000), Begin(0.0, "worker/1", "server/0", 1000)
    assert run(network, [near, far]) == {0: 1.5, 1: 10.0}


def test_a_thousand_equal_flows_into_one_host_end_together() -> None:
    times = run(PLAIN, [begin(sender, 0, 100) for sender in range(1, 1001)], workers=1001)
    assert len(set(times.values())) == 1
    assert times[0] == pytest.approx(1000.0, rel=1e-12)


def test_a_cut_stops_the_bytes_and_lifting_it_lets_them_go_on() -> None:
    for name in ("worker/1", "host/1"):
        flows = Flows(PLAIN, 4)
        flows.start(0.0, "worker/0", "worker/1", 1000, "held")
        flows.start(0.0, "worker/0", "worker/2", 1000, "free")
        flows.block(4.0, name, "worker/0", True)
        assert flows.next_time() == 12.0  # 800 bytes left, all of the link
        assert flows.advance(12.0) == ["free"]
        flows.start(12.0, "worker/1", "worker/0", 10, "back")
        assert flows.next_time() == math.inf
        flows.block(20.0, name, "worker/0", False)
        assert flows.advance(100.0) == ["back", "held"]
        assert flows.next_time() == math.inf


def test_a_cut_between_sites_leaves_the_sites_themselves_alone_and_lets_what_has_left_arrive() -> None:
    flows = Flows(two_sites(), 8)
    flows.start(0.0, "worker/0", "worker/4", 90, "left")
    flows.start(0.0, "worker/0", "worker/1", 1000, "inside")
    flows.start(0.0, "worker/1", "worker/4", 1000, "held")
    assert flows.advance(2.5) == []
    flows.block(2.5, "site/a", "site/b", True)
    assert flows.advance(500.0) == ["left", "inside"]
    flows.block(500.0, "site/a", "site/b", False)
    assert flows.next_time() < math.inf


def test_two_cuts_of_one_way_must_both_be_lifted() -> None:
    flows = Flows(PLAIN, 4)
    flows.block(0.0, "worker/0", "worker/1", True)
    flows.block(0.0, "host/0", "host/1", True)
    flows.start(0.0, "worker/0", "worker/1", 100, "held")
    flows.block(1.0, "worker/0", "worker/1", False)
    assert flows.next_time() == math.inf
    flows.block(2.0, "host/0", "host/1", False)
    assert flows.next_time() == 3.0


def test_a_crashed_actor_loses_what_has_not_left_and_frees_its_links() -> None:
    flows = Flows(Network.uniform("far", 100.0, 5.0), 4)
    flows.start(0.0, "worker/0", "worker/1", 100, "left")
    flows.start(0.0, "worker/0", "worker/1", 100, "half")
    flows.start(0.0, "worker/0", "worker/1", 100, "waiting")
    flows.start(1.0, "worker/2", "worker/1", 100, "other")
    assert flows.forget(1.5, "worker/0") == ["half", "waiting"]
    assert flows.next_time() == 2.25
    assert flows.advance(10.0) == ["left", "other"]


def test_what_is_under_way_goes_on_at_the_new_bandwidth() -> None:
    slower = replace(PLAIN, changes=(ChangeEntry(at=4.0, host=1, ingress=10.0),))
    assert run(slower, [begin(0, 1, 1000)]) == {0: 64.0}
    assert run(slower, [begin(0, 2, 1000)]) == {0: 10.0}
    assert run(slower, [begin(0, 1, 100, time=5.0)]) == {0: 15.0}


def test_time_cannot_go_back() -> None:
    flows = Flows(PLAIN, 2)
    flows.advance(2.0)
    with pytest.raises(ValueError, match="time went back"):
        flows.advance(1.0)


def networks() -> st.SearchStrategy[Network]:
    """A few shapes, with round and with awkward numbers."""
    rate = st.sampled_from([10.0, 30.0, 100.0, 77.7])
    shared = st.sampled_from([15.0, 40.0, 123.4, math.inf])
    site = st.builds(Site, st.just("?"), rate, rate, st.sampled_from([0.0, 0.5]), shared, shared, shared)

    def change(host: int, at: float, egress: float | None, ingress: float) -> ChangeEntry:
        return ChangeEntry(at=at, host=host, egress=egress, ingress=ingress)

    def join(sites: list[Site], capacity: list[float], changes: list[ChangeEntry]) -> Network:
        named = [replace(site, name=f"s{place}") for place, site in enumerate(sites)]
        pairs = [(a.name, b.name) for a in named for b in named if a is not b]
        joined = Network.joined("drawn", named, dict.fromkeys(pairs, 0.25), dict(zip(pairs, capacity, strict=False)))
        return replace(joined, changes=(*changes, *_of_sites(joined)))

    changed = st.builds(change, st.integers(0, 4), st.sampled_from([1.0, 2.5, 9.0]), st.none() | rate, rate)
    return st.builds(join, st.lists(site, min_size=1, max_size=3), st.lists(shared, min_size=6, max_size=6), st.lists(changed, max_size=3))


def _of_sites(network: Network) -> list[ChangeEntry]:
    """Half of each shared bandwidth from 3 s on."""
    found = [ChangeEntry(at=3.0, site=site.name, uplink=site.uplink / 2) for site in network.sites if site.uplink < math.inf]
    found += [ChangeEntry(at=4.0, site=site.name, medium=site.medium / 2) for site in network.sites if site.medium < math.inf]
    for a, row in enumerate(network.capacity):
        for b, capacity in enumerate(row):
            if a < b and capacity < math.inf and network.capacity[b][a] < math.inf:
                found.append(ChangeEntry(at=3.0, source=network.sites[a].name, target=network.sites[b].name, bandwidth=capacity / 2))
    return found


ACTORS = [*(f"worker/{rank}" for rank in range(5)), "server/0"]
BEGINS = st.lists(
    st.builds(
        Begin,
        st.sampled_from([0.0, 0.0, 1.0, 2.5, 7.75]),
        st.sampled_from(ACTORS),
        st.sampled_from(ACTORS),
        st.sampled_from([0, 1, 50, 100, 333, 1000]),
    ),
    max_size=14,
)


@pytest.mark.parametrize("few", [0, 2, 32])
@given(network=networks(), begins=BEGINS)
@settings(max_examples=120, deadline=None)
def test_deliveries_equal_the_plain_reference_in_small_groups_and_in_crowds(few: int, network: Network, begins: list[Begin]) -> None:
    times = run(network, begins, workers=5, parts=replace(PORTABLE, few=few))
    expected = deliveries(network, 5, begins)
    assert [times[index] for index in range(len(begins))] == pytest.approx([float(time) for time in expected], rel=1e-9, abs=1e-9)
    assert run(network, begins, workers=5, parts=replace(BEST, few=few)) == times


def flowing(flows: Flows) -> list[tuple[Connection, float]]:
    """The connections with a message on the links, and their rates."""
    attached = [c for row in flows._connections.values() for c in row.values() if c.attached]
    return [(c, c.rate if c.group is None else float(c.group.rates[c.slot])) for c in attached]


@pytest.mark.parametrize("name", ["slow", "cloud", "wan-3"])
def test_crowds_form_and_fall_apart_without_a_trace_in_the_times(name: str) -> None:
    draws = random.Random(5)
    begins = [
        Begin(draws.random() * 20, f"worker/{draws.randrange(60)}", f"worker/{draws.randrange(60)}", draws.randrange(1, 3 * 10**7))
        for _ in range(600)
    ]
    found = []
    for few in (0, 32, 10**6):
        found.append(run(load(name), begins, workers=60, parts=replace(PORTABLE, few=few)))
        assert run(load(name), begins, workers=60, parts=replace(BEST, few=few)) == found[-1]
    assert list(found[0]) == list(found[1]) == list(found[2])
    assert found[0] == pytest.approx(found[2], rel=1e-9)
    assert found[1] == pytest.approx(found[2], rel=1e-9)


@pytest.mark.parametrize("few", [0, 32])
@given(network=networks(), begins=BEGINS)
@settings(max_examples=80, deadline=None)
def test_no_link_is_over_full_and_every_flow_has_a_bottleneck(few: int, network: Network, begins: list[Begin]) -> None:
    flows = Flows(network, 5, parts=replace(PORTABLE, few=few))
    for _, sender, receiver, nbytes in begins:
        flows.start(0.0, sender, receiver, nbytes, None)
    while (due := flows.next_time()) < math.inf:
        load_of: dict[str, float] = defaultdict(float)
        fastest: dict[str, float] = defaultdict(float)
        capacity: dict[str, float] = {}
        shared = [(links_of(network, 5, c.sender.name, c.receiver.name), rate) for c, rate in flowing(flows)]
        for links, rate in shared:
            for name in map(link_of, links):
                load_of[name] += rate
                fastest[name] = max(fastest[name], rate)
            capacity |= {link_of(name): most for name, most in links.items()}
        assert all(load_of[name] <= capacity[name] * (1 + 1e-9) for name in capacity)
        for links, rate in shared:
            full = [name for name in map(link_of, links) if load_of[name] >= capacity[name] * (1 - 1e-9)]
            assert not links or any(rate >= fastest[name] * (1 - 1e-9) for name in full)
        flows.advance(due)


@given(network=networks(), begins=BEGINS, seed=st.integers(0, 100))
@settings(max_examples=80, deadline=None)
def test_the_order_of_simultaneous_starts_changes_no_time(network: Network, begins: list[Begin], seed: int) -> None:
    unique = list({begin[:3]: begin for begin in begins}.values())  # messages of one pair must keep their order
    order = list(range(len(unique)))
    random.Random(seed).shuffle(order)
    times = run(network, unique, workers=5)
    shuffled = run(network, [unique[index] for index in order], workers=5)
    assert {order[index]: time for index, time in shuffled.items()} == times


def test_the_order_of_simultaneous_starts_changes_no_delivery_order_in_a_crowd() -> None:
    network = load("wan-11")
    draws = random.Random(3)
    begins = [Begin(0.0, f"worker/{a}", f"worker/{b}", draws.randrange(1000, 1010) * 1000) for a in range(24) for b in range(24) if a != b]

    def order_of(given: list[Begin]) -> list[tuple[str, float]]:
        flows = Flows(network, 24)
        for each in given:
            flows.start(*each, f"{each.sender} {each.receiver}")
        seen = []
        while (due := flows.next_time()) < math.inf:
            seen += [(str(token), due) for token in flows.advance(due)]
        return seen

    first = order_of(begins)
    assert len(first) == len(begins)
    draws.shuffle(begins)
    assert order_of(begins) == first


def test_bytes_are_conserved_through_a_long_busy_hour() -> None:
    """A link that is never idle delivers exactly its capacity times the time, however often its flows change."""
    draws = random.Random(1)
    begins = [begin(1 + number % 40, 0, draws.randrange(1, 5000), time=draws.random() * 10) for number in range(400)]
    begins.append(begin(50, 0, 1, time=0.0))
    times = run(PLAIN, begins, workers=64)
    total = sum(each.nbytes for each in begins)
    first = min(each.time for each in begins if each.nbytes > 1)
    assert max(times.values()) == pytest.approx(total / 100.0 + (first - 1 / 100.0 if first > 0.01 else 0.0), rel=1e-9)


def test_a_network_of_many_hosts_deals_them_to_sites_and_still_agrees_with_the_reference() -> None:
    network = load("wan-11")
    dealt = Network(network.name, network.sites, network.latency, network.capacity, deal=RoundRobin())
    draws = random.Random(2)
    begins = [
        Begin(float(draws.randrange(3)), f"worker/{draws.randrange(30)}", f"worker/{draws.randrange(30)}", draws.randrange(1, 10**6))
        for _ in range(40)
    ]
    times = run(dealt, begins, workers=30)
    expected = deliveries(dealt, 30, begins)
    assert [times[index] for index in range(len(begins))] == pytest.approx([float(time) for time in expected], rel=1e-9)
