"""What each algorithm of all-reduce takes on equal lines, by the α-β model: a message of n bytes takes a + n / B seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.protocols.algorithm import Algorithm
from polyrhythm.topology import Butterfly, Direct, Ring, Star, Tree
from polyrhythm.topology.costs import all_reduce_bound, central_server, recursive_doubling, sharded_servers

ALGORITHMS: Mapping[str, Algorithm] = {
    "direct": Direct(),
    "butterfly": Butterfly(),
    "ring": Ring(),
    "tree": Tree(),
    "star": Star(),
}
"""Those that `AllReduce` has, by name; the butterfly is Rabenseifner's, halving and doubling."""


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """One all-reduce by the algorithm `name`: its seconds, and the bytes and messages of all workers together, with headers.

    Of a formula without an algorithm here, bytes and messages are None.
    """

    name: str
    seconds: float
    nbytes: int | None = None
    messages: int | None = None


def collective_costs(value: Tensor, workers: int, latency: float, bandwidth: float) -> list[CollectiveCost]:
    """All algorithms for the sum of `value` among so many workers, the fastest first, after the bound for one message at a time.

    Examples:
        >>> [each.name for each in collective_costs(gradient_of(1024), 8, 0.001, 1e6)][:4]
        ['bound of one port', 'direct', 'a server for each worker', 'butterfly']
    """
    nbytes = value.numel() * value.element_size()
    bound = CollectiveCost("bound of one port", all_reduce_bound(nbytes, workers, latency, bandwidth))
    return [bound, *sorted(_all(value, nbytes, workers, latency, bandwidth), key=lambda each: each.seconds)]


def _all(value: Tensor, nbytes: int, workers: int, latency: float, bandwidth: float) -> Iterator[CollectiveCost]:
    for name, algorithm in ALGORITHMS.items():
        seconds = algorithm.seconds(nbytes, workers, latency, bandwidth) if workers > 1 else 0.0
        yield CollectiveCost(name, seconds, *(algorithm.traffic(value, workers, "sum") if workers > 1 else (0, 0)))
    yield CollectiveCost("recursive doubling", recursive_doubling(nbytes, workers, latency, bandwidth))
    shared = sharded_servers(nbytes, workers, workers, bandwidth)
    for name, each_way in (("one server", central_server(nbytes, workers, bandwidth)), ("a server for each worker", shared)):
        yield CollectiveCost(name, 2 * (latency + each_way))


def gradient_of(numel: int) -> Tensor:
    """A gradient of so many numbers of four bytes, without memory."""
    return torch.empty(numel, dtype=torch.float32, device="meta")
