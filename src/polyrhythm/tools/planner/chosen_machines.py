"""The machines that a candidate uses: all in turn, or some of those that are listed, by kind, by site, in an order of their own, and with
batches by their speed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network

_MOST_KINDS = 6
"""Of more kinds only the slowest few are left out."""
_STEP = 1e9
"""Machines are ordered by the time of so many operations."""
_GROUPED = "in order of speed"
_SHARED = "with batches by speed"
_UNLIKE = 1.1
"""Speeds that differ by less are alike: equal batches suit them."""
_WHOLE = 100
"""Shares are whole numbers with about this sum."""


@dataclass(frozen=True, slots=True)
class ChosenMachines:
    """Worker w has the machine at `places[w]` of `of` in the description; no places stand for all, in turn. `words` say which these are.

    Where there are `shares`, worker w has so many parts of each step's samples, and not as many as the others. `groups` of workers, as
    "0,1/2", are for systems that exchange inside groups and between them. `unlike` says that the machines left out are not like the others.
    """

    places: tuple[int, ...] = ()
    of: int = 0
    words: str = ""
    shares: tuple[int, ...] = ()
    groups: str = ""
    unlike: bool = False

    def __bool__(self) -> bool:
        return bool(self.places)


EVERY = ChosenMachines()
"""As many of the machines as there are workers, in the order of the description."""


def choices_of(devices: Fleet, network: Network, workers: int) -> tuple[ChosenMachines, ...]:
    """What may be left out of `workers` machines: each kind, the slowest kinds together, all sites but one; and all in order of speed.

    Machines of one kind have the same name, speed and site, and an equal line. Nothing is left out of machines that are all alike; of sites
    that are, one may be all. The first choice is without the slowest. See `shared_choices` for batches by speed.
    """
    kinds: dict[tuple[object, ...], list[int]] = {}
    for place in range(workers):
        kinds.setdefault(_kind(devices, network, place, workers), []).append(place)
    if len(kinds) < 2:
        return ()
    found: dict[frozenset[int], str] = {}
    if len({_likeness(devices, network, places, workers) for places in kinds.values()}) > 1:
        slowest = sorted(kinds, key=lambda kind: (-_seconds(devices, kinds[kind][0]), kinds[kind]))
        names = _names(devices, network, kinds, workers)
        for count in range(1, min(len(slowest), _MOST_KINDS)):
            _note(found, kinds, slowest[:count], names)
        for kind in slowest[:_MOST_KINDS]:
            _note(found, kinds, [kind], names)
    of_other_kinds = set(found)
    sites = [network.sites[network.site_of(place, workers)].name for place in range(workers)]
    for site in dict.fromkeys(sites):
        found.setdefault(frozenset(place for place in range(workers) if sites[place] != site), f"at {site} alone")
    some = [
        ChosenMachines(tuple(place for place in range(workers) if place not in out), workers, words, unlike=out in of_other_kinds)
        for out, words in found.items()
        if 0 < len(out) <= workers - 2
    ]
    order = tuple(sorted(range(workers), key=lambda place: (sites[place], _seconds(devices, place), place)))
    return (*some, *([ChosenMachines(order, workers, _GROUPED)] if order != tuple(range(workers)) else []))


def shared_choices(devices: Fleet, workers: int, some: Sequence[ChosenMachines]) -> tuple[ChosenMachines, ...]:
    """All machines, and the first choice of `some`, with batches by speed, where their speeds differ and are known.

    A worker's share is the part of all operations that its machine computes in a second, without what a step costs besides.
    """
    every = ChosenMachines(tuple(range(workers)), workers)
    found = []
    for each in (every, *(choice for choice in some[:1] if len(choice.places) < workers)):
        speeds = [_speed(devices, place) for place in each.places]
        if min(speeds) > 0 and max(speeds) > _UNLIKE * min(speeds):
            shares = tuple(max(1, round(_WHOLE * speed / sum(speeds))) for speed in speeds)
            found.append(replace(each, shares=shares, words=", ".join(filter(None, (each.words, _SHARED)))))
    return tuple(found)


def grouped_choices(devices: Fleet, network: Network, workers: int) -> tuple[ChosenMachines, ...]:
    """All machines in two groups, the fast and the slow, where their speeds differ: divided where they differ most.

    Nothing for those whose groups are the sites, by which such systems divide workers anyway.
    """
    order = sorted(range(workers), key=lambda place: (_seconds(devices, place), place))
    steps = [_seconds(devices, later) / _seconds(devices, before) for before, later in pairwise(order)]
    if not steps or max(steps) <= _UNLIKE:
        return ()
    cut = steps.index(max(steps)) + 1
    groups = [sorted(order[:cut]), sorted(order[cut:])]
    sites = [{network.site_of(place, workers) for place in group} for group in groups]
    if all(len(each) == 1 for each in sites) and sites[0] != sites[1]:
        return ()
    names = [" and ".join(dict.fromkeys(devices.machine(place).name for place in group)) for group in groups]
    text = "/".join(",".join(map(str, group)) for group in groups)
    return (ChosenMachines(tuple(range(workers)), workers, f"in two groups, {names[0]} | {names[1]}", groups=text),)


def _speed(devices: Fleet, place: int) -> float:
    """Operations a second there, once a step is under way; 0 where only whole steps are known."""
    machine, slowdown = devices.machine(place), math.prod(pace.always(devices.place(place)) for pace in devices.paces)
    seconds = (machine.step_seconds(2 * _STEP, 0) - machine.step_seconds(_STEP, 0)) * slowdown
    return _STEP / seconds if seconds > 0 else 0.0


def _note(
    found: dict[frozenset[int], str],
    kinds: dict[tuple[object, ...], list[int]],
    out: Sequence[tuple[object, ...]],
    names: dict[tuple[object, ...], str],
) -> None:
    places = frozenset(place for kind in out for place in kinds[kind])
    found.setdefault(places, f"without {' and '.join(names[kind] for kind in out)}")


def _kind(devices: Fleet, network: Network, place: int, workers: int) -> tuple[object, ...]:
    return (
        devices.machine(place),
        devices.terms_of(place),
        math.prod(pace.always(devices.place(place)) for pace in devices.paces),
        network.site_of(place, workers),
        network.access(place, workers),
    )


def _likeness(devices: Fleet, network: Network, places: Sequence[int], workers: int) -> tuple[object, ...]:
    """What is equal for machines of one site that are like those of another: the kind but for the site's name, and its lines."""
    machine, terms, pace, _, access = _kind(devices, network, places[0], workers)
    own = network.site_of(places[0], workers)
    lines = [
        sorted((row[own], matrix[own][other]) for other, row in enumerate(matrix) if other != own)
        for matrix in (network.latency, network.capacity, network.jitter)
        if matrix
    ]
    return machine, terms, pace, replace(network.sites[own], name=""), access, len(places), str(lines), own if network.changes else None


def _seconds(devices: Fleet, place: int) -> float:
    """The seconds of a step there."""
    return devices.machine(place).step_seconds(_STEP, 0) * math.prod(pace.always(devices.place(place)) for pace in devices.paces)


def _names(devices: Fleet, network: Network, kinds: dict[tuple[object, ...], list[int]], workers: int) -> dict[tuple[object, ...], str]:
    """What each kind is called: by its machine, with its site or its workers where others have that name."""
    machines = {kind: devices.machine(places[0]).name for kind, places in kinds.items()}
    named = {}
    for kind, places in kinds.items():
        name, alike = machines[kind], [other for other in kinds if machines[other] == machines[kind]]
        sites = [network.site_of(kinds[other][0], workers) for other in alike]
        if len(alike) == 1:
            named[kind] = name
        elif len(set(sites)) == len(alike):
            named[kind] = f"{name} at {network.sites[network.site_of(places[0], workers)].name}"
        else:
            named[kind] = f"worker{'s' * (len(places) > 1)} {', '.join(map(str, places))}"
    return named
