"""The time of one exchange of M bytes among P workers, in closed form: the formulas by which papers compare topologies.

P is `workers`, S `servers`, M `nbytes`, B `bandwidth` in bytes per second, a `latency` in seconds. Lines carry B in each direction at the
same time, headers count for nothing, and all begin at once. Where a formula leaves the latency out, so does its paper. The algorithms of
all-reduce have closed forms of their own (`Ring.seconds` and its like), which hold for any P to the last latency.
"""

from __future__ import annotations

from math import ceil, log2


def central_server(nbytes: float, workers: int, bandwidth: float) -> float:
    """P M / B each way: all workers' gradients reach one server over its line (FireCaffe; Iandola et al., 2016, section 4.1)."""
    return workers * nbytes / bandwidth


def sharded_servers(nbytes: float, workers: int, servers: int, bandwidth: float) -> float:
    """max(M / B, P M / (S B)) each way, servers on machines of their own (BytePS; Jiang et al., 2020, section 2.2)."""
    return max(nbytes, workers * nbytes / servers) / bandwidth


def colocated_servers(nbytes: float, workers: int, bandwidth: float) -> float:
    """2 (P - 1) M / (P B): a shard at every worker, whose own part does not travel (Jiang et al., 2020, section 2.2)."""
    return 2 * (workers - 1) * nbytes / (workers * bandwidth)


def ring(nbytes: float, workers: int, latency: float, bandwidth: float) -> float:
    """2 (P - 1) (a + M / (P B)) (Patarasuk and Yuan, 2009)."""
    return 2 * (workers - 1) * (latency + nbytes / (workers * bandwidth))


def reduction_tree(nbytes: float, workers: int, latency: float, bandwidth: float) -> float:
    """⌈log2 P⌉ (a + M / B), one leg (FireCaffe; Iandola et al., 2016, section 4.2); the sum's way back takes as long again."""
    return ceil(log2(workers)) * (latency + nbytes / bandwidth)


def binary_tree(nbytes: float, workers: int, latency: float, bandwidth: float) -> float:
    """2 ⌈log2 P⌉ (a + M / B): the tree up and down."""
    return 2 * reduction_tree(nbytes, workers, latency, bandwidth)


def all_to_all(nbytes: float, workers: int, bandwidth: float) -> float:
    """(P - 1) M / B: each sends the whole to every other."""
    return (workers - 1) * nbytes / bandwidth


def partial_all_to_all(nbytes: float, workers: int, parts: int, bandwidth: float) -> float:
    """(P - 1) M / (p B): each sends every other one of `parts` (Ako; Watcharapichat et al., 2016)."""
    return all_to_all(nbytes, workers, bandwidth) / parts


def gossip(nbytes: float, latency: float, bandwidth: float) -> float:
    """a + M / B, whatever P is (GossipGraD; Daily et al., 2018)."""
    return latency + nbytes / bandwidth


def all_reduce_bound(nbytes: float, workers: int, latency: float, bandwidth: float) -> float:
    """⌈log2 P⌉ a + 2 (P - 1) M / (P B): the bound where a worker sends one message at a time (Ben-Nun and Hoefler, 2019, section 2.5).

    `Direct` is below it in latencies, since its messages are under way together.
    """
    return ceil(log2(workers)) * latency + colocated_servers(nbytes, workers, bandwidth)


def recursive_doubling(nbytes: float, workers: int, latency: float, bandwidth: float) -> float:
    """⌊log2 P⌋ (a + M / B): each exchanges the whole with a partner; where P is no power of two, two more steps (Thakur et al., 2005)."""
    core = workers.bit_length() - 1
    return (core + 2 * (workers != 1 << core)) * (latency + nbytes / bandwidth)
