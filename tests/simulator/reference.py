"""Max-min sharing written as plainly as possible, in exact fractions: what the engine is held to."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from polyrhythm.hardware.network import Network
from polyrhythm.hardware.timetable import timetable


class Begin(NamedTuple):
    """A message that begins to be sent."""

    time: float
    sender: str
    receiver: str
    nbytes: int


AGAIN = " again"
"""At the end of the name of a link that a path takes a second time."""


def link_of(name: str) -> str:
    """The link of that name on a path."""
    return name.removesuffix(AGAIN)


def links_of(network: Network, workers: int, sender: str, receiver: str, now: Fraction = Fraction(0)) -> dict[str, float]:
    """The links from `sender` to `receiver` by name, with their capacities at `now`."""
    here, there = network.host_of(sender, workers), network.host_of(receiver, workers)
    if here == there:
        return {}
    links = {f"egress {here}": network.access(here, workers).egress, f"ingress {there}": network.access(there, workers).ingress}
    a, b = network.site_of(here, workers), network.site_of(there, workers)
    if a != b:
        links |= {f"up {a}": network.sites[a].uplink, f"down {b}": network.sites[b].downlink, f"pair {a} {b}": network.capacity[a][b]}
    links |= {f"medium {a}": network.sites[a].medium, f"medium {b}" + AGAIN * (a == b): network.sites[b].medium}
    changed = _changed(network, workers, now)
    links |= {name: changed[link_of(name)] for name in links if link_of(name) in changed}
    return {name: capacity for name, capacity in links.items() if capacity < math.inf}


def _changed(network: Network, workers: int, now: Fraction) -> dict[str, float]:
    names = {
        "egress": "egress {}",
        "ingress": "ingress {}",
        "uplink": "up {}",
        "downlink": "down {}",
        "medium": "medium {}",
        "pair": "pair {} {}",
    }
    due = [change for change in timetable(network, workers) if change.at <= now]
    return {names[change.link.kind].format(change.link.source, change.link.target): change.bandwidth for change in due}


def fair_rates(paths: dict[tuple[str, str], dict[str, float]]) -> dict[tuple[str, str], Fraction]:
    """Raise all rates together; a flow that meets a full link stops."""
    rates = {flow: Fraction(0) for flow in paths}
    left = {link_of(name): Fraction(capacity) for path in paths.values() for name, capacity in path.items()}
    growing = list(paths)
    while growing:
        users = {name: sum(link_of(taken) == name for flow in growing for taken in paths[flow]) for name in left}
        pace = min(left[name] / users[name] for name in left if users[name])
        for flow in growing:
            rates[flow] += pace
        for name in left:
            left[name] -= pace * users[name]
        growing = [flow for flow in growing if all(left[link_of(name)] > 0 for name in paths[flow])]
    return rates


def deliveries(network: Network, workers: int, begins: list[Begin]) -> list[Fraction]:
    """When each of `begins` is delivered, event by event."""
    arrived = [Fraction(0)] * len(begins)
    queues: dict[tuple[str, str], list[int]] = {}
    remaining = [Fraction(begin.nbytes) for begin in begins]
    coming = sorted(range(len(begins)), key=lambda index: begins[index].time)
    now = Fraction(0)
    while coming or any(queues.values()):
        paths = {pair: links_of(network, workers, *pair, now) for pair, queue in queues.items() if queue}
        rates = fair_rates({pair: path for pair, path in paths.items() if path})
        rates |= {pair: Fraction(network.local.bandwidth) for pair, path in paths.items() if not path}
        due = [now + remaining[queues[pair][0]] / rate for pair, rate in rates.items()]
        due += [Fraction(begins[coming[0]].time)] if coming else []
        due += [Fraction(change.at) for change in timetable(network, workers) if change.at > now]
        then = min(due)
        for pair, rate in rates.items():
            first = queues[pair][0]
            remaining[first] -= rate * (then - now)
            if remaining[first] == 0:
                queues[pair].pop(0)
                delay = network.delay(network.host_of(pair[0], workers), network.host_of(pair[1], workers), workers)
                arrived[first] = then + Fraction(delay)
        now = then
        while coming and Fraction(begins[coming[0]].time) == now:
            index = coming.pop(0)
            queues.setdefault((begins[index].sender, begins[index].receiver), []).append(index)
    return arrived
