"""Some of the machines of a description, in an order of their own: what a plan that leaves machines out, or groups them, runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from polyrhythm.errors import CompositionError
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import GivenSites


def chosen_fleet(fleet: Fleet, places: Sequence[int]) -> Fleet:
    """The fleet in which worker w has the machine, the terms and the paces of the worker `places[w]` of the `fleet`."""
    return replace(fleet, places=tuple(fleet.place(place) for place in places))


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


def refuse_places(places: Sequence[int], workers: int) -> None:
    """Raise CompositionError for places that are not there, or are given twice."""
    if not places or len(set(places)) < len(places) or not all(0 <= place < workers for place in places):
        raise CompositionError(
            f"machines {list(places)} are not each one of {workers}, which count from 0: name each that takes part once."
        )
