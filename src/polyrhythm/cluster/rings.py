"""The devices of a host for one job: those with the fastest ring, and of these, those that leave the fastest rings to later jobs.

R(S) is the bandwidth of the slowest link of the best ring through all devices of S. It is computed for all subsets of up to 16 devices: for
each distinct bandwidth, in descending order, a dynamic program over subsets says which of them have a ring of links that are no slower.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

from polyrhythm.cluster.device_topology import DeviceTopology

_LATER = (2, 4, 8)
"""The sizes of later jobs for which rings are kept."""


def ring_bandwidth(topology: DeviceTopology, chosen: int) -> float:
    """Bytes per second of the slowest link of the best ring through the devices of the bitmask `chosen`; infinite for one device."""
    return _table(topology)[chosen]


@lru_cache(maxsize=1 << 16)
def pick_ring(topology: DeviceTopology, free: int, count: int) -> int | None:
    """The bitmask of `count` of the devices in the bitmask `free`; None if there are not as many.

    Sets with the fastest ring come first, then those after which the rest has the fastest rings of two, four and eight; then the lowest
    bitmask. For one device only the rest counts, so that single devices do not break pairs.
    """
    table, rest = _table(topology), _rest(topology)
    best: tuple[float, float] | None = None
    pick = None
    for chosen in _subsets(free, count):
        left = free & ~chosen
        if left not in rest:
            rest[left] = sum(max((table[each] for each in _subsets(left, later)), default=0.0) for later in _LATER)
        found = (table[chosen], rest[left])
        if best is None or found > best:
            best, pick = found, chosen
    return pick


def ring_order(topology: DeviceTopology, chosen: int) -> tuple[int, ...]:
    """The devices of `chosen` in the order of their best ring, from the lowest on."""
    least = ring_bandwidth(topology, chosen)
    members = [device for device in range(len(topology.bandwidth)) if chosen >> device & 1]

    def continued(path: list[int], left: list[int]) -> list[int] | None:
        if not left:
            return path if topology.bandwidth[path[-1]][path[0]] >= least or len(path) == 1 else None
        for device in left:
            if topology.bandwidth[path[-1]][device] >= least:
                found = continued([*path, device], [each for each in left if each != device])
                if found:
                    return found
        return None

    return tuple(continued(members[:1], members[1:]) or members)


@lru_cache(maxsize=64)
def _rest(topology: DeviceTopology) -> dict[int, float]:
    """The sum of the bandwidths of the best rings of two, four and eight devices, by the bitmask of free ones; filled as it is asked."""
    return {}


def _subsets(free: int, count: int) -> Iterator[int]:
    """All bitmasks of `count` bits of `free`, in ascending order of their lowest differing bits."""
    bits = [1 << place for place in range(free.bit_length()) if free >> place & 1]
    yield from (sum(each) for each in combinations(bits, count))


@lru_cache(maxsize=64)
def _table(topology: DeviceTopology) -> tuple[float, ...]:
    """R of every bitmask of devices."""
    size = len(topology.bandwidth)
    table = [0.0] * (1 << size)
    table[0] = math.inf
    for device in range(size):
        table[1 << device] = math.inf
    for rate in sorted({rate for a, row in enumerate(topology.bandwidth) for rate in row[:a]}, reverse=True):
        for chosen in _with_rings(topology, rate):
            table[chosen] = table[chosen] or rate
    return tuple(table)


def _with_rings(topology: DeviceTopology, rate: float) -> Iterator[int]:
    """The bitmasks of two devices or more through which a ring of links of at least `rate` exists (Held and Karp, 1962)."""
    size = len(topology.bandwidth)
    near = [sum(1 << b for b in range(size) if b != a and topology.bandwidth[a][b] >= rate) for a in range(size)]
    ends = [0] * (1 << size)  # where paths over the whole mask, from its lowest device, may end
    for chosen in range(1, 1 << size):
        lowest = chosen & -chosen
        if chosen == lowest:
            ends[chosen] = chosen
            continue
        for device in range(lowest.bit_length(), size):
            if chosen >> device & 1 and ends[chosen & ~(1 << device)] & near[device]:
                ends[chosen] |= 1 << device
        if ends[chosen] & near[lowest.bit_length() - 1]:
            yield chosen
