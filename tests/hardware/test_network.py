"""Networks as values: presets, files, who lives where."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError, PolyrhythmError, UnknownNameError
from polyrhythm.hardware.description import NetworkDescription
from polyrhythm.hardware.network import Access, Network, Site, load
from polyrhythm.hardware.network_json import network_json
from polyrhythm.hardware.placement import Blocks, Local, OwnHosts, RoundRobin, WithWorkers
from polyrhythm.hardware.presets import PRESETS
from polyrhythm.hardware.timetable import LinkKey, timetable
from polyrhythm.hardware.wan import REGIONS, ROUND_TRIPS

MBIT = 1e6 / 8


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_loads_and_survives_being_written_to_a_file(name: str, tmp_path: Path) -> None:
    network = load(name)
    assert network.name == name
    path = tmp_path / "network.json"
    path.write_text(network_json(network))
    assert load(path) == network
    assert load(str(path)) == network


def test_presets_are_what_their_descriptions_state() -> None:
    assert load("slow").slowest() == (0.02, 50 * MBIT)
    assert load("lan").slowest() == pytest.approx((50e-6, 10_000 * MBIT))
    assert load("home").access(3, 8) == Access(20 * MBIT, 100 * MBIT)
    assert load("home").delay(0, 1, 8) == 0.015
    assert [site.name for site in load("wan-3").sites] == ["Virginia", "Ireland", "Tokyo"]
    assert load("wan-3").delay(0, 1, 3) == 0.0405


def test_the_reconstructed_wide_area_network_has_the_shape_that_gaia_reports() -> None:
    network = load("wan-11")
    assert [site.name for site in network.sites] == list(REGIONS)
    rates = {(a, b): network.capacity[a][b] for a in range(11) for b in range(11) if a != b}
    lan = network.sites[0].egress
    assert lan / (sum(rates.values()) / len(rates)) == pytest.approx(15, rel=0.1)
    assert lan / min(rates.values()) == pytest.approx(60)
    assert max(rates.values()) / min(rates.values()) == pytest.approx(12)
    slowest, fastest = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
    assert {REGIONS[place] for place in slowest} == {"Singapore", "Sao Paulo"}
    assert {REGIONS[place] for place in fastest} == {"California", "Oregon"}
    assert all(network.latency[a][b] == network.latency[b][a] for a, b in rates)
    assert [len(row) for row in ROUND_TRIPS] == list(range(11))


@given(workers=st.integers(1, 200), sites=st.integers(1, 12))
def test_both_ways_of_dealing_are_balanced_and_blocks_keep_neighbours_together(workers: int, sites: int) -> None:
    for deal in (Blocks(), RoundRobin()):
        dealt = [deal.site_of(worker, workers, sites) for worker in range(workers)]
        counts = [dealt.count(site) for site in range(sites)]
        assert sum(counts) == workers
        assert max(counts) - min(counts) <= 1
    blocks = [Blocks().site_of(worker, workers, sites) for worker in range(workers)]
    assert blocks == sorted(blocks)


def test_servers_have_hosts_of_their_own_at_the_site_of_a_worker() -> None:
    network = load("wan-3")
    assert network.placement == OwnHosts()
    assert network.host_of("worker/5", 6) == 5
    assert [network.host_of(f"server/{shard}", 6) for shard in range(8)] == list(range(6, 14))
    assert [network.site_of(host, 6) for host in range(14)] == [0, 0, 1, 1, 2, 2] * 2 + [0, 0]


def test_servers_can_live_with_workers_and_then_speak_locally() -> None:
    written = '{"name": "x", "sites": [{"name": "a", "egress": 1e6}], "placement": {"type": "WithWorkers"}, "local": {"latency": 0.001}}'
    network = _load(written)
    assert network.placement == WithWorkers()
    assert [network.host_of(f"server/{shard}", 3) for shard in range(4)] == [0, 1, 2, 0]
    assert network.delay(1, 1, 3) == 0.001
    assert network.local.bandwidth == Local().bandwidth


def test_only_workers_and_servers_have_hosts() -> None:
    for name in ("monitor", "worker/", "hub/1", "worker/x"):
        with pytest.raises(CompositionError, match="has no host"):
            load("lan").host_of(name, 4)


def _load(text: str) -> Network:
    return Network.described(msgspec.json.decode(text, type=NetworkDescription))


def test_a_file_may_give_text_or_numbers_and_one_way_stands_for_both() -> None:
    network = _load(
        """{"name": "two-labs",
            "sites": [{"name": "lab", "egress": "1 Gbit/s", "latency": "50 us", "uplink": "100 Mbit/s"},
                      {"name": "attic", "egress": "20 Mbit/s", "ingress": 12500000, "latency": 0.002}],
            "links": [{"from": "lab", "to": "attic", "latency": "15 ms", "bandwidth": "80 Mbit/s"}],
            "hosts": [{"host": 0, "egress": "10 Mbit/s"}],
            "deal": {"type": "RoundRobin"}}"""
    )
    assert network.sites[0] == Site("lab", 1000 * MBIT, 1000 * MBIT, 50 * 1e-6, 100 * MBIT, math.inf)
    assert network.sites[1] == Site("attic", 20 * MBIT, 100 * MBIT, 0.002)
    assert network.latency == ((0.0, 0.015), (0.015, 0.0))
    assert network.capacity[0][1] == network.capacity[1][0] == 80 * MBIT
    assert network.deal == RoundRobin()
    assert network.access(0, 4) == Access(10 * MBIT, 10 * MBIT)
    assert network.access(2, 4) == Access(1000 * MBIT, 1000 * MBIT)
    assert network.slowest() == (0.015, 10 * MBIT)


def test_a_shared_medium_and_jitter_are_read_and_written(tmp_path: Path) -> None:
    network = _load(
        """{"name": "n", "sites": [{"name": "air", "egress": "300 Mbit/s", "latency": "4 ms", "medium": "120 Mbit/s", "jitter": "3 ms"},
                                   {"name": "b", "egress": 1}],
            "links": [{"from": "air", "to": "b", "latency": "20 ms", "jitter": "5 ms"}]}"""
    )
    assert network.sites[0].medium == 120 * MBIT
    assert [network.site_jitter(*pair) for pair in ((0, 0), (0, 1), (1, 0), (1, 1))] == pytest.approx([0.003, 0.005, 0.005, 0.0])
    assert network.varies
    assert network.shares_media
    path = tmp_path / "network.json"
    path.write_text(network_json(network))
    assert load(path) == network
    assert not load("wan-11").varies
    assert not load("wan-11").shares_media


def test_the_way_back_may_differ() -> None:
    network = _load(
        """{"name": "n", "sites": [{"name": "a", "egress": 1}, {"name": "b", "egress": 1}],
            "links": [{"from": "a", "to": "b", "latency": 1}, {"from": "b", "to": "a", "latency": 2, "bandwidth": 3}]}"""
    )
    assert network.latency == ((0.0, 1.0), (2.0, 0.0))
    assert network.capacity == ((math.inf, math.inf), (3.0, math.inf))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "n", "sites": [{"name": "a", "egress": 1, "speed": 2}]}', "unknown field `speed`"),
        ('{"name": "n", "sites": [{"name": "a"}]}', "missing required field `egress`"),
        ('{"name": "n", "sites": [{"name": "a", "egress": "fast"}]}', "'fast' is not a bandwidth"),
        ('{"name": "n", "sites": [{"name": "a", "egress": 0}]}', "not a finite number above zero"),
        ('{"name": "n", "sites": [{"name": "a", "egress": 1, "uplink": 0}]}', "not above zero"),
        ('{"name": "n", "sites": [{"name": "a", "egress": 1, "latency": -1}]}', "zero or more"),
        ('{"name": "n", "sites": []}', "has no site"),
        ('{"name": "n", "sites": [{"name": "a", "egress": 1}, {"name": "a", "egress": 1}]}', "two sites of one name"),
        ('{"name": "n", "sites": [{"name": "a", "egress": 1}, {"name": "b", "egress": 1}]}', "no connection from site 'a' to 'b'"),
        ('{"name": "n", "sites": [{"name": "a", "egress": 1, "medium": 0}]}', "not above zero"),
        ('{"name": "n", "sites": [{"name": "a", "egress": 1, "latency": 1, "jitter": 2}]}', "no message arrives before it was sent"),
        ("not JSON", "cannot be used"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    path.write_text(text)
    with pytest.raises(CompositionError, match=message):
        load(path)


def test_unknown_names_are_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'wan-11'"):
        load("wan-12")
    with pytest.raises(CompositionError, match="cannot be read"):
        load(tmp_path / "missing.json")
    with pytest.raises(UnknownNameError, match="No site is called 'c'"):
        Network.joined("n", [Site("a", 1.0, 1.0)], {("a", "c"): 1.0}, {})


def test_matrices_must_fit_the_sites() -> None:
    with pytest.raises(CompositionError, match="matrices of 1 rows"):
        Network("n", (Site("a", 1.0, 1.0),), (), ())


def test_a_small_b_is_not_taken_for_bits_nor_for_bytes() -> None:
    assert Network.uniform("n", "1 GB/s", 0.0).sites[0].egress == 1e9
    assert Network.uniform("n", "8 gbit/s", 0.0).sites[0].egress == 1e9
    for rate in ("1 Gb/s", "5mb/s", "3 b/S"):
        with pytest.raises(CompositionError, match=r"may mean bits or bytes: write .*bit/s or .*B/s"):
            Network.uniform("n", rate, 0.0)
    with pytest.raises(CompositionError, match="not a bandwidth: write a number and one of bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s"):
        Network.uniform("n", "1 GiB/s", 0.0)
    with pytest.raises(CompositionError, match="not a duration"):
        Network.uniform("n", 1.0, "5 b/s")


def test_changes_are_read_and_written_and_wrong_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "falling.json"
    text = '{"name": "falling", "sites": [{"name": "lab", "egress": "50 Mbit/s"}], "changes": [CHANGE]}'
    path.write_text(text.replace("CHANGE", '{"at": "10 s", "host": 1, "egress": "5 Mbit/s"}'))
    found = timetable(load(path), 2)
    assert [(change.at, change.link, change.bandwidth, change.what) for change in found] == [
        (10.0, LinkKey("egress", 1, 1), 5 * MBIT, "sends at 5 Mbit/s")
    ]
    path.write_text(network_json(load(path)))
    assert timetable(load(path), 2) == found
    for change, reason in (
        ('{"at": 1, "host": 1, "uplink": 5}', "a change of host gives egress or ingress"),
        ('{"at": 1, "host": 1, "site": "lab", "egress": 5}', "one of host, site, or from and to"),
        ('{"at": 1, "from": "lab", "bandwidth": 5}', "one of host, site, or from and to"),
        ('{"at": 1, "host": 1, "speed": 5}', "unknown field"),
    ):
        path.write_text(text.replace("CHANGE", change))
        with pytest.raises(CompositionError, match=reason):
            load(path)
    for change, reason in (
        ('{"at": 1, "host": 7, "egress": 5}', "changes host 7, and there are 2 hosts"),
        ('{"at": 1, "site": "lab", "uplink": 5}', "unlimited before"),
        ('{"at": 1, "site": "barn", "uplink": 5}', "barn"),
    ):
        path.write_text(text.replace("CHANGE", change))
        with pytest.raises(PolyrhythmError, match=reason):
            timetable(load(path), 2)
