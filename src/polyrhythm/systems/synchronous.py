"""Everybody in step."""

from __future__ import annotations

from polyrhythm.codec import ErrorFeedback, TopK
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.topology import AllReduce, Alone, Ring, Tree


def single() -> Strategy:
    """One worker trains alone; the baseline that the others are measured against."""
    return Strategy(topology=Alone())


def allreduce() -> Strategy:
    """Synchronous SGD over a ring all-reduce (Horovod; Sergeev and Del Balso, 2018, arXiv:1802.05799).

    Gradients are averaged, and every worker runs the same optimizer on the mean, so that optimizer states stay equal.
    """
    return Strategy(topology=AllReduce(Ring()))


def tree() -> Strategy:
    """Synchronous SGD over a reduction tree (FireCaffe; Iandola, Moskewicz, Ashraf, Keutzer, CVPR 2016, arXiv:1511.00175)."""
    return Strategy(topology=AllReduce(Tree()))


def onebit() -> Strategy:
    """TODO"""
    return Strategy(topology=AllReduce(Ring()), codec=ErrorFeedback(TopK(0.1)))
