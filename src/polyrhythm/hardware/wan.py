"""The wide-area network of Gaia's study: eleven EC2 regions, as a table of round trips and a reconstructed bandwidth.

Round trips in milliseconds: ping means between EC2 regions as published for 2016, rounded; the row of Mumbai, a younger
region, was written from memory, and its figures are approximate. One-way latency is half a round trip.

Bandwidth: Hsieh et al. (NSDI 2017, section 2.2, figure 1) print their measured matrix as bars, without numbers, and
say: on average 15 times smaller than the 1 Gbit/s of their LAN, 60 times in the worst pair (Singapore to Sao Paulo),
and up to 12 times larger between near regions (Oregon and California) than between distant ones. THE ENTRIES HERE ARE
RECONSTRUCTED, not measured: they fall exponentially with the round trip from 200 Mbit/s at the nearest pair to
16.7 Mbit/s at the farthest, which meets the worst and the best exactly and the average within a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.hardware.description import LinkEntry, NetworkDescription, SiteEntry

REGIONS = ("Virginia", "California", "Oregon", "Ireland", "Frankfurt", "Tokyo", "Seoul", "Singapore", "Sydney", "Mumbai", "Sao Paulo")

ROUND_TRIPS: tuple[tuple[float, ...], ...] = (
    (),
    (72,),
    (88, 19),
    (81, 153, 137),
    (89, 167, 160, 20),
    (145, 103, 89, 212, 237),
    (178, 132, 118, 242, 266, 31),
    (217, 174, 161, 239, 326, 74, 72),
    (230, 158, 162, 310, 323, 104, 134, 175),
    (187, 230, 217, 122, 110, 130, 138, 62, 150),
    (120, 193, 183, 191, 195, 257, 286, 328, 322, 303),
)
"""Milliseconds from each region to those before it in `REGIONS`."""

NEAREST, FARTHEST = 19.0, 328.0
LAN_BITS, BEST_BITS, WORST_BITS = 1e9, 200e6, 1e9 / 60


def region_bandwidth(round_trip: float) -> float:
    """The reconstructed bytes per second between regions `round_trip` milliseconds apart."""
    share = (round_trip - NEAREST) / (FARTHEST - NEAREST)
    return float(BEST_BITS * (WORST_BITS / BEST_BITS) ** share / 8)


def regions(name: str, chosen: Sequence[str]) -> NetworkDescription:
    """The network of the `chosen` regions: a 1 Gbit/s LAN of 0.25 ms in each, one shared capacity for each ordered pair."""
    places = sorted(REGIONS.index(region) for region in chosen)
    links = [
        LinkEntry(REGIONS[far], REGIONS[near], ROUND_TRIPS[far][near] / 2000, region_bandwidth(ROUND_TRIPS[far][near]))
        for far in places
        for near in places
        if near < far
    ]
    return NetworkDescription(name, [SiteEntry(region, "1 Gbit/s", latency="0.25 ms") for region in chosen], links)
