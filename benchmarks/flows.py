"""How fast the sharing of links is: messages a second, and milliseconds an event where a thousand flows meet.

    python benchmarks/flows.py --workers 1000 --steps 100

Prints one JSON object. `gossip`: each worker sends to a random partner every step, pairs both ways. `incast`: all workers
send at once to one server, messages of equal or of different sizes. `shards`: all workers send to four servers, starting
at different times. `exchange`: everyone to everyone among 64 workers, starting at different times.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable

import numpy as np

from polyrhythm.core import rng
from polyrhythm.core.simulator.flows import Flows
from polyrhythm.hardware.network import Network, load

Begin = tuple[float, str, str, int]


def drive(flows: Flows, begins: list[Begin]) -> tuple[int, int]:
    """Start each message at its time and run to the end: the instants visited and the messages delivered."""
    instants = delivered = place = 0
    while True:
        due = flows.next_time()
        begin = begins[place][0] if place < len(begins) else math.inf
        now = min(due, begin)
        if now == math.inf:
            return instants, delivered
        instants += 1
        delivered += len(flows.advance(now))
        while place < len(begins) and begins[place][0] == now:
            flows.start(*begins[place], None)
            place += 1


def gossip(network: Network, workers: int, steps: int, draws: np.random.Generator) -> list[Begin]:
    """Random pairs, every step anew."""
    begins: list[Begin] = []
    names = [f"worker/{rank}" for rank in range(workers)]
    for step in range(steps):
        order = draws.permutation(workers).tolist()
        for a, b in zip(order[::2], order[1::2], strict=False):
            begins += [(float(step), names[a], names[b], 100_000), (float(step), names[b], names[a], 100_000)]
    return begins


def incast(workers: int, draws: np.random.Generator, spread: int) -> list[Begin]:
    """Everyone to one server, `spread` bytes apart in size at most."""
    return [(0.0, f"worker/{rank}", "server/0", 100_000 + int(draws.integers(0, spread + 1))) for rank in range(workers)]


def shards(workers: int, draws: np.random.Generator) -> list[Begin]:
    """Everyone to four servers, each worker at its own time."""
    times = draws.uniform(0.0, 1.0, workers).tolist()
    return sorted((times[rank], f"worker/{rank}", f"server/{shard}", 100_000) for rank in range(workers) for shard in range(4))


def exchange(draws: np.random.Generator, workers: int = 64) -> list[Begin]:
    """Everyone to everyone, each worker at its own time."""
    times = draws.uniform(0.0, 0.5, workers).tolist()
    return sorted((times[a], f"worker/{a}", f"worker/{b}", 100_000) for a in range(workers) for b in range(workers) if a != b)


def measure(network: Network, workers: int, make: Callable[[], list[Begin]]) -> dict[str, float]:
    """Seconds, messages a second and milliseconds an instant of one load."""
    begins = make()
    flows = Flows(network, workers)
    began = time.perf_counter()
    instants, delivered = drive(flows, begins)
    seconds = time.perf_counter() - began
    if delivered != len(begins):
        raise SystemExit(f"{len(begins) - delivered} messages were not delivered")
    return {
        "messages": delivered,
        "seconds": round(seconds, 3),
        "messages_per_second": round(delivered / seconds),
        "instants": instants,
        "milliseconds_per_instant": round(1e3 * seconds / instants, 4),
    }


def main() -> None:
    """Measure every load and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=100, help="of gossip")
    parser.add_argument("--network", default="slow")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    network, workers = load(given.network), given.workers
    draws = rng.stream(given.seed, "benchmarks", "flows")
    loads: dict[str, Callable[[], list[Begin]]] = {
        "gossip": lambda: gossip(network, workers, given.steps, draws),
        "incast_equal": lambda: incast(workers, draws, 0),
        "incast_different": lambda: incast(workers, draws, 100_000),
        "shards": lambda: shards(workers, draws),
        "exchange": lambda: exchange(draws),
    }
    figures = {name: measure(network, workers, make) for name, make in loads.items()}
    print(json.dumps({"workers": workers, "steps": given.steps, "network": network.name, "seed": given.seed, **figures}, indent=2))


if __name__ == "__main__":
    main()
