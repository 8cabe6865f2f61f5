"""What machines and lines have besides their speed: hours, prices, caps, memory, and some of them chosen."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as draw

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.chosen import chosen_fleet, chosen_network
from polyrhythm.hardware.description import NetworkDescription
from polyrhythm.hardware.device_presets import DEVICES, TERMS
from polyrhythm.hardware.devices import Device, files_of
from polyrhythm.hardware.fleet import Fleet, Straggler, fleet
from polyrhythm.hardware.hours import Hours, stretched
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.meters import HostLines, HostTraffic, LineUse, SentOut, metered
from polyrhythm.hardware.network_json import network_json
from polyrhythm.hardware.timetable import timetable

MIXED = """{"name": "mine", "machines": [
    {"name": "lent", "like": "rtx-3060", "worker_hour": 0.2, "interruptions": 0.05, "notice": "30 s"},
    {"name": "pi", "like": "raspberry-pi-4", "count": 2, "memory": "1 GB", "hours": [{"at": "8 h", "for": "10 h"}]}]}"""
TWO_SITES = """{"name": "two", "sites": [
    {"name": "home", "egress": "20 Mbit/s", "ingress": "100 Mbit/s", "meter": {"type": "HostLines", "gigabyte": 0.5, "cap": "50 GB"}},
    {"name": "cloud", "egress": "1 Gbit/s", "meter": {"type": "SentOut", "gigabyte": 0.09}}],
  "links": [{"from": "home", "to": "cloud", "latency": "20 ms"}]}"""


def test_a_machine_that_is_like_another_gives_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(MIXED)
    found = fleet(path)
    assert [each.name for each in found.machines] == ["lent", "pi", "pi"]
    assert found.machines[0].step_seconds(1e9, 0) == DEVICES["rtx-3060"].step_seconds(1e9, 0)
    lent, pi = found.terms_of(0), found.terms_of(2)
    assert (lent.memory, lent.watts, lent.worker_hour, lent.interruptions, lent.notice) == (12e9, 170, 0.2, 0.05, 30.0)
    assert (pi.memory, pi.watts, pi.hours) == (1e9, TERMS["raspberry-pi-4"].watts, (Hours("8 h", "10 h"),))
    assert files_of(path) == [path]
    path.write_text(MIXED.replace('"count": 2', '"count": 0'))
    with pytest.raises(CompositionError, match="count of 1"):
        fleet(path)


def test_every_preset_says_its_memory_and_its_power() -> None:
    assert TERMS.keys() == DEVICES.keys()
    assert all(each.watts for each in TERMS.values())
    assert [name for name, each in TERMS.items() if each.memory == float("inf")] == ["cpu-core", "laptop"]


@given(
    windows=draw.lists(draw.tuples(draw.floats(0, 50), draw.floats(0.1, 9), draw.sampled_from([None, 0.5, 2.0, 7.0])), max_size=3),
    now=draw.floats(0, 200),
    first=draw.floats(0, 30),
    second=draw.floats(0, 30),
)
def test_work_in_two_parts_ends_when_the_whole_does(
    windows: list[tuple[float, float, float | None]], now: float, first: float, second: float
) -> None:
    hours = tuple(Hours(at, length, 10.0, factor) for at, length, factor in windows)
    assume(sum(factor is None for *_, factor in windows) < 2)
    middle = stretched(hours, now, first)
    parts = middle + stretched(hours, now + middle, second)
    whole = stretched(hours, now, first + second)
    # where work ends at the moment at which its machine leaves, what follows it waits
    assert whole == pytest.approx(parts, abs=1e-6) or parts > whole - 1e-6
    assert whole >= (first + second) * min([1.0, *(factor or 1.0 for *_, factor in windows)]) ** len(windows) - 1e-6


def test_a_machine_that_is_away_takes_the_step_when_it_is_back() -> None:
    away = Fleet((Device("d", 1.0),), terms=(MachineTerms(hours=(Hours(10.0, 5.0, 100.0),)),))
    moments = iter((0.0, 8.0, 12.0, 109.0))
    timer = away.timer("worker/0", 0, lambda: next(moments))
    assert [timer.step_seconds(4.0, 1) for _ in range(4)] == [4.0, 9.0, 7.0, 9.0]


def test_hours_count_on_the_clock_of_a_run() -> None:
    def train(worker: pr.Worker) -> None:
        model = torch.nn.Linear(1, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for (x,) in worker.batches((torch.ones(8, 1),), batch_size=1):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

    step = pr.hardware.Profile("a second", (1.0,))
    seconds = []
    for hours in ((), (Hours(2.0, 3.0, 1000.0),)):
        on = pr.Simulator(pr.Instant(), Fleet((step,), terms=(MachineTerms(hours=hours),)))
        seconds.append(pr.run(train, workers=2, on=on).summary.virtual_seconds)
    assert seconds == [4.0, 7.0]


def test_changes_come_again_every_day() -> None:
    text = TWO_SITES.replace('"links"', '"changes": [{"at": "1 h", "host": 0, "egress": 1e6, "every": "24 h", "times": 2}], "links"')
    written = networks.Network.described(msgspec.json.decode(text, type=NetworkDescription))
    assert [each.at for each in timetable(written, 2)] == [3600.0, 90000.0]


def test_metered_lines_count_what_they_carry(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text(TWO_SITES)
    network = networks.load(tmp_path / "two.json")
    (tmp_path / "again.json").write_text(network_json(network))
    assert networks.load(tmp_path / "again.json") == network
    meters = {site.name: site.meter for site in network.sites if site.meter is not None}
    traffic = [
        HostTraffic("host/0", "host/1", "home", "home", 1.0),
        HostTraffic("host/0", "host/2", "home", "cloud", 10.0),
        HostTraffic("host/2", "host/0", "cloud", "home", 100.0),
        HostTraffic("host/2", "host/3", "cloud", "cloud", 1000.0),
    ]
    assert metered(meters, traffic) == {
        "the line of host/0": LineUse(111.0, 0.5, 50e9),
        "the line of host/1": LineUse(1.0, 0.5, 50e9),
        "the line out of cloud": LineUse(100.0, 0.09, float("inf")),
    }


def test_chosen_machines_keep_their_speed_their_paces_and_their_lines(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text(TWO_SITES.replace('"links"', '"hosts": [{"host": 3, "egress": 5e5}], "links"'))
    network = networks.load(tmp_path / "two.json")
    whole = Fleet((Device("a", 1.0), Device("b", 2.0), Device("c", 4.0), Device("d", 8.0)), (Straggler(3, 2.0),))
    some, near = chosen_fleet(whole, (3, 0)), chosen_network(network, (3, 0), 4)
    assert [some.timer(f"worker/{rank}", 0).step_seconds(8.0, 1) for rank in (0, 1)] == [2.0, 8.0]
    assert [near.sites[near.site_of(host, 2)].name for host in (0, 1)] == ["cloud", "home"]
    assert near.access(0, 2).egress == 5e5
    assert chosen_fleet(some, (1,)).machine(0).name == "a"
    for places in ((), (0, 0), (4,)):
        with pytest.raises(CompositionError, match="name each that takes part once"):
            chosen_network(network, places, 4)


def test_hours_that_leave_no_time_are_refused() -> None:
    with pytest.raises(CompositionError, match="always away"):
        stretched((Hours(0.0, 6.0, 10.0), Hours(5.0, 6.0, 10.0)), 0.0, 1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Hours(0.0, 10.0, 10.0),
        lambda: Hours(0.0, 1.0, factor=0.0),
        lambda: MachineTerms(memory=0),
        lambda: MachineTerms(watts=-1.0),
        lambda: HostLines(gigabyte=-1.0),
        lambda: SentOut(cap=0.0),
        lambda: Fleet(terms=(MachineTerms(), MachineTerms())),
    ],
)
def test_terms_that_cannot_be_are_refused(make: object) -> None:
    with pytest.raises(CompositionError, match="give"):
        make()  # type: ignore[operator]
