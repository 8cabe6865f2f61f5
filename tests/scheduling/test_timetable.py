"""Timetables have the least mean completion time, and never more on a host than it has."""

from __future__ import annotations

from itertools import permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.tools.scheduling.timetable import Entry, Option, Room, timetable

HOSTS = ("a", "b", "c")
SETS = [(("a", 1),), (("b", 1),), (("c", 1),), (("a", 1), ("b", 1)), (("a", 1), ("b", 1), ("c", 1))]


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, list[Option]], Room]:
    jobs = [f"j{number}" for number in range(draw(st.integers(1, 3)))]
    options = {}
    for job in jobs:
        sets = draw(st.lists(st.sampled_from(SETS), min_size=1, max_size=3, unique=True))
        options[job] = [Option(job, hosts, draw(st.integers(1, 9)) * 1.0) for hosts in sets]
    share = {(job, host): draw(st.sampled_from([500, 1000])) for job in jobs for host in HOSTS}
    taken = tuple((host, 1000, float(draw(st.integers(1, 4)))) for host in draw(st.lists(st.sampled_from(HOSTS), max_size=1)))
    return options, Room(share, taken)


def _load(entries: tuple[Entry, ...], room: Room, host: str, moment: float) -> int:
    used = sum(amount for name, amount, until in room.taken if name == host and moment < until)
    for entry in entries:
        if entry.starts <= moment < entry.ends:
            used += sum(count * room.share[entry.option.job, name] for name, count in entry.option.hosts if name == host)
    return used


def _serial(order: tuple[Option, ...], room: Room) -> float:
    """The mean when each in this order starts as early as it can."""
    entries: tuple[Entry, ...] = ()
    for option in order:
        moments = sorted({0.0, *(entry.ends for entry in entries), *(until for _, _, until in room.taken)})
        for moment in moments:
            tried = (*entries, Entry(option, moment))
            inside = [moment, *(entry.starts for entry in entries if moment < entry.starts < moment + option.seconds)]
            if all(_load(tried, room, host, at) <= 1000 for host in HOSTS for at in inside):
                entries = tried
                break
    return sum(entry.ends for entry in entries) / len(entries)


@given(cases())
@settings(max_examples=60)
def test_no_order_and_no_choice_of_places_is_better(case: tuple[dict[str, list[Option]], Room]) -> None:
    options, room = case
    found = timetable(options, room)
    assert found.is_optimal
    every = [_serial(order, room) for chosen in product(*options.values()) for order in permutations(chosen)]
    assert abs(found.mean - min(every)) < 1e-9


@given(cases())
@settings(max_examples=60)
def test_no_host_has_more_than_it_can_at_any_moment(case: tuple[dict[str, list[Option]], Room]) -> None:
    options, room = case
    found = timetable(options, room)
    assert sorted(entry.option.job for entry in found.entries) == sorted(options)
    for moment in {entry.starts for entry in found.entries}:
        assert all(_load(found.entries, room, host, moment) <= 1000 for host in HOSTS)


def test_a_search_that_is_cut_short_says_so_and_is_no_worse_than_greedy() -> None:
    jobs = [f"j{number}" for number in range(6)]
    options = {job: [Option(job, hosts, float(1 + place * 7 % 5)) for hosts in SETS] for place, job in enumerate(jobs)}
    room = Room({(job, host): 1000 for job in jobs for host in HOSTS})
    short, long = timetable(options, room, nodes=1), timetable(options, room)
    assert not short.is_optimal
    assert long.mean <= short.mean
