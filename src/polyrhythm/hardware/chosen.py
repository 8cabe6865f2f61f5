"""Some of the machines of a description, in an order of their own: what a plan that leaves machines out, or groups them, runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from polyrhythm.errors import CompositionError
from polyrhythm.hardware.fleet import Fleet, fleet
from polyrhythm.hardware.machines import Machine
from polyrhythm.hardware.network import Network, load
from polyrhythm.hardware.placement import GivenSites


def chosen_fleet(whole: Fleet, places: Sequence[int]) -> Fleet:
    """The fleet in which worker w has the machine, the terms and the paces of the worker `places[w]` of the `whole`."""
    return replace(whole, places=tuple(whole.place(place) for place in places))


def chosen_network(network: Network, places: Sequence[int], workers: int) -> Network:
    """The network in which worker w is where worker `places[w]` of so many `workers` is; lines of the others are not there."""
    refuse_places(places, workers)
    sites = GivenSites(tuple(network.site_of(place, workers) for place in places))
    accesses = dict(network.accesses)
    new = {place: host for host, place in enumerate(places)}
    changes = [
        each if each.host is None else msgspec.structs.replace(each, host=new[each.host])
        for each in network.changes
        if each.host is None or each.host in new
    ]
    return replace(
        network,
        accesses=tuple((host, accesses[place]) for host, place in enumerate(places) if place in accesses),
        deal=sites,
        changes=tuple(changes),
    )


def some_machines(
    network: str | Path | Network, devices: str | Path | Machine | Fleet, places: Sequence[int], of: int
) -> tuple[Network, Fleet]:
    """The network and the machines of a run by some of so many machines: worker w is what worker `places[w]` of all would be.

    Examples:
        >>> network, machines = some_machines("wan-3", "laptop", (0, 2), of=3)
        >>> [network.sites[network.site_of(worker, 2)].name for worker in (0, 1)]
        ['Virginia', 'Tokyo']
    """
    whole = network if isinstance(network, Network) else load(network)
    return chosen_network(whole, places, of), chosen_fleet(fleet(devices), places)


def places_typed(text: str) -> tuple[tuple[int, ...], int]:
    """The places and the number of all, as "0,2,3/4" has them. Raises CompositionError for other text."""
    named, _, of = text.partition("/")
    try:
        places, whole = tuple(int(each) for each in named.split(",")), int(of)
    except ValueError:
        raise CompositionError(f"--machines {text}: write which of how many, such as 0,2,3/4 for all but machine 1 of four.") from None
    refuse_places(places, whole)
    return places, whole


def refuse_places(places: Sequence[int], workers: int) -> None:
    """Raise CompositionError for places that are not there, or are given twice."""
    if not places or len(set(places)) < len(places) or not all(0 <= place < workers for place in places):
        raise CompositionError(
            f"machines {list(places)} are not each one of {workers}, which count from 0: name each that takes part once."
        )
