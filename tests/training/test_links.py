"""What is measured between hosts is what joins them: in virtual time to the byte, and for real at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.congestion import Bbr, Congestion, Fair
from polyrhythm.hardware.network import Network, Site
from polyrhythm.hardware.network_json import network_json
from polyrhythm.hardware.placement import WithWorkers
from polyrhythm.tools.measuring import links
from polyrhythm.tools.measuring.links import congestion_here, local_between, network_between, survey_job
from polyrhythm.tools.measuring.probes import StreamMeasurement, varying

CLOSE = 0.01
"""Headers, and the latency of responses that came while others were waited for."""


def measured(network: str | Network, workers: int, congestions: Sequence[Congestion] = ()) -> list[Network]:
    """What each of `workers` workers finds on `network`; `congestions` are those of their hosts, Fair if there are none."""
    found: list[Network] = []
    notified: list[tuple[int, int]] = []

    def program(context: WorkerContext) -> None:
        rank = rank_of(context.port.name)
        congestion = congestions[rank] if congestions else Fair()
        found.append(
            network_between(
                context, Group.of_workers(workers, rank), "found", congestion=congestion, follow=lambda *far: notified.append(far)
            )
        )

    survey = survey_job(workers)
    Simulator(network=network).execute(Job(workers, 0, program, survey.service, survey.essential), lambda event: None)
    pairs = workers * (workers - 1)
    assert sorted(notified) == sorted((done, pairs) for done in range(pairs + 1) for _ in range(workers))
    return found


def test_all_workers_find_the_same() -> None:
    first, *others = measured("slow", 3)
    assert others == [first, first]


@pytest.mark.parametrize(("chosen", "expected"), [("bbr\n", Bbr()), ("cubic\n", Fair()), (None, Fair())])
def test_the_congestion_control_is_what_linux_names(
    chosen: str | None, expected: Congestion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tcp_congestion_control"
    if chosen is not None:
        file.write_text(chosen, encoding="ascii")
    monkeypatch.setattr(links, "CONGESTION_CONTROL", file)
    assert congestion_here() == expected


def test_a_network_has_the_congestion_control_on_which_all_hosts_agree() -> None:
    assert measured("slow", 2, [Bbr(), Bbr()])[1].congestion == Bbr()
    assert measured("slow", 2, [Bbr(), Fair()])[1].congestion == Fair()
    assert measured("slow", 2, [Fair(), Bbr()])[0].congestion == Fair()


def test_a_message_that_comes_with_those_behind_it_makes_no_line_faster() -> None:
    even = StreamMeasurement(0.4, 3000, 0.3, (0.3, 0.2, 0.1))
    assert even.rate == even.slowest == pytest.approx(10_000)
    assert StreamMeasurement(0.4, 3000, 0.21, (0.21, 0.2, 0.1)).slowest == pytest.approx(10_000)


def test_jitter_is_found_where_latencies_vary_and_nowhere_else() -> None:
    shaky = replace(networks.load("wan-3"), jitter=((0.0, 0.01, 0.0), (0.01, 0.0, 0.0), (0.0, 0.0, 0.0)))
    found = measured(shaky, 3)[0]
    for here, there in [(0, 1), (1, 0)]:
        assert found.site_jitter(here, there) == pytest.approx(0.01, rel=0.35)
        assert found.latency[here][there] == pytest.approx(shaky.latency[here][there], abs=0.003)
    assert [found.site_jitter(here, there) for here, there in [(0, 2), (2, 0), (1, 2), (2, 1)]] == [0.0] * 4
    assert not measured("wan-3", 3)[0].varies


@pytest.mark.parametrize("jitter", [0.001, 0.01, 0.08])
def test_the_jitter_of_many_round_trips_is_unbiased(jitter: float) -> None:
    drawn = Random(7)
    latency = 0.1
    estimates = [varying([latency + jitter * (drawn.uniform(-1, 1) + drawn.uniform(-1, 1)) / 2 for _ in range(40)]) for _ in range(400)]
    expected = jitter if jitter * 0.5 > 0.01 else 0.0
    assert fmean(found for _, found in estimates) == pytest.approx(expected, rel=0.05)
    if expected:
        assert fmean(found for found, _ in estimates) == pytest.approx(latency, rel=0.01)


@pytest.mark.parametrize("name", ["slow", "home", "wan-3"])
def test_latency_and_capacity_of_each_pair_are_found(name: str) -> None:
    given, found = networks.load(name), measured(name, 3)[0]
    for source in range(3):
        for target in range(3):
            if source != target:
                assert found.delay(source, target, 3) == pytest.approx(given.delay(source, target, 3), rel=CLOSE)
                here, there = given.access(source, 3), given.access(target, 3)
                capacity = given.capacity[given.site_of(source, 3)][given.site_of(target, 3)]
                least = min(here.egress, there.ingress, capacity)
                assert found.capacity[source][target] == pytest.approx(least, rel=CLOSE)


def test_a_host_that_takes_more_than_one_can_send_is_found_out() -> None:
    home = measured("home", 4)[0]  # 20 Mbit/s up, 100 down: three senders reach 60
    assert home.sites[0].egress == pytest.approx(20e6 / 8, rel=CLOSE)
    assert home.sites[0].ingress == pytest.approx(60e6 / 8, rel=CLOSE)


def test_the_lines_of_a_host_add_up_where_nothing_else_is_in_the_way() -> None:
    wan = measured("wan-3", 3)[0]
    together = [sum(rate for to, rate in enumerate(row) if to != rank) for rank, row in enumerate(wan.capacity)]
    assert [site.egress for site in wan.sites] == pytest.approx(together, rel=0.05)


def test_a_line_that_ends_before_another_does_not_count_twice() -> None:
    sites = [Site(name, 10e6, 10e6) for name in "abc"]
    pairs = {(a, b): 0.001 for a in "abc" for b in "abc" if a != b}
    found = measured(Network.joined("shared", sites, pairs, {("a", "c"): 3e6}), 3)[0]
    assert found.sites[0].egress == pytest.approx(10e6, rel=0.05)


def test_a_measured_network_can_be_written_down_and_read(tmp_path: Path) -> None:
    found = measured("home", 2)[0]
    (tmp_path / "network.json").write_text(network_json(found))
    assert networks.load(tmp_path / "network.json") == found
    assert found.placement == WithWorkers()


def test_one_process_alone_is_refused() -> None:
    with pytest.raises(CompositionError, match="RANK"):
        measured("slow", 1)


def test_two_processes_of_one_host_are_near_each_other() -> None:
    local = local_between(seconds=0.01)
    assert 0 < local.latency < 1
    assert local.bandwidth > 1e6
