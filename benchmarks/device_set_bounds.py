"""The largest part of jobs that any policy can give the best ring of their box, for the jobs of C2 of `cluster_policies.py`.

    python benchmarks/device_set_bounds.py --out benchmarks/results/device_set_bounds.json

The devices that each running job has are the state of a Markov decision process: a job of one, two or four devices arrives, jobs that
are drawn at random leave, and the policy chooses devices. Value iteration finds the mean of the best policy without foresight, and
of each that is measured there. The means are exact, so there are no seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path

import numpy as np
from cluster_policies import BOXES, PICKS
from numpy.typing import NDArray

from polyrhythm.cluster import DeviceTopology
from polyrhythm.cluster.rings import ring_bandwidth
from polyrhythm.core import streams

DEVICES = 8
SHARES = {1: 0.5, 2: 0.3, 4: 0.2}
LEAVES = 0.3
"""The chance that another job leaves although there is room."""

Jobs = tuple[int, ...]
"""The bitmasks of the devices of all running jobs, in ascending order."""


def subsets(free: int, count: int) -> list[int]:
    """All bitmasks of `count` devices of `free`."""
    return [sum(each) for each in combinations([1 << place for place in range(DEVICES) if free >> place & 1], count)]


def all_states(rest: int, jobs: Jobs = ()) -> Iterable[Jobs]:
    """Each way in which jobs can have the devices of `rest`, besides `jobs`."""
    if not rest:
        yield tuple(sorted(jobs))
        return
    lowest = rest & -rest
    yield from all_states(rest - lowest, jobs)
    for count in SHARES:
        for others in subsets(rest - lowest, count - 1):
            yield from all_states(rest - lowest - others, (*jobs, lowest + others))


STATES = sorted(all_states((1 << DEVICES) - 1), key=len)
NUMBER = {state: number for number, state in enumerate(STATES)}
FREE = [(1 << DEVICES) - 1 - sum(state) for state in STATES]
ROOM = np.array([free.bit_count() for free in FREE])
WITH = [np.flatnonzero([len(state) == jobs for state in STATES]) for jobs in range(DEVICES + 1)]
"""The numbers of the states with so many jobs, and below, those that each of these becomes when one of its jobs leaves."""
LEFT = [
    np.array([[NUMBER[state[:j] + state[j + 1 :]] for j in range(jobs)] for state in STATES if len(state) == jobs]) for jobs in range(9)
]


class Arrival:
    """A job of `count` devices: where the sets that may be chosen lead from each state, and whether they have the best ring of the box."""

    def __init__(self, topology: DeviceTopology, count: int, options: Callable[[int, int], list[int]]) -> None:
        best = max(ring_bandwidth(topology, chosen) for chosen in subsets((1 << DEVICES) - 1, count))
        begins, leads, gains, self._from = [], [], [], []
        for number, state in enumerate(STATES):
            if ROOM[number] < count:
                continue
            begins.append(len(leads))
            self._from.append(number)
            for chosen in options(FREE[number], count):
                leads.append(NUMBER[tuple(sorted((*state, chosen)))])
                gains.append(count > 1 and ring_bandwidth(topology, chosen) >= best)
        self._begins, self._leads, self._gains = begins, np.array(leads), np.array(gains, float)
        self._count = count

    def values(self, later: NDArray[np.float64]) -> NDArray[np.float64]:
        """The value of each state at which the job arrives, where `later` is that of those after it was placed."""
        chosen = np.full(len(STATES), -np.inf)
        chosen[self._from] = np.maximum.reduceat(self._gains + later[self._leads], self._begins)
        found = chosen.copy()
        for jobs in range(1, DEVICES + 1):
            numbers = WITH[jobs]
            gone = found[LEFT[jobs]].mean(1)
            fits = self._count <= ROOM[numbers]
            found[numbers] = gone
            found[numbers[fits]] = LEAVES * gone[fits] + (1 - LEAVES) * chosen[numbers[fits]]
        return found


def part(topology: DeviceTopology, options: Callable[[int, int], list[int]]) -> float:
    """The part of jobs of two and four devices with the best ring of the box, if the best of the `options` is chosen each time."""
    arrivals = {count: Arrival(topology, count, options) for count in SHARES}
    later = np.zeros(len(STATES))
    while True:
        found = sum((SHARES[count] * arrivals[count].values(later) for count in SHARES), np.zeros(len(STATES)))
        gained = found - later
        if np.ptp(gained) < 1e-6:
            return float(gained.mean()) / (1 - SHARES[1])
        later = found - found[0]


def main() -> None:
    """Print and write the part of each policy, and the largest, on each box."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    draws = streams.stream(0, "benchmark", "device-sets", "none")
    rows = []
    for box, topology in BOXES.items():
        row: dict[str, object] = {"box": box, "largest": round(part(topology, subsets), 4)}
        for name in ("ours", "first-fit", "sum"):
            row[name] = round(part(topology, lambda free, count, pick=PICKS[name], box=topology: [pick(box, free, count, draws)]), 4)
        print(row, flush=True)
        rows.append(row)
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
