"""Nobody in the middle."""

from __future__ import annotations

from polyrhythm.consistency import LocalSteps
from polyrhythm.merge import Mean
from polyrhythm.shuffle import RingShuffle
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.topology import Dissemination, Gossip


def gossipgrad(rotate: bool = True) -> Strategy:
    """Gossip with partner rotation and a ring shuffle of samples (GossipGraD; Daily et al., 2018, arXiv:1803.05880).

    After every local step each worker meets one other on a dissemination graph and both average their
    weights: O(1) messages, whatever P is. Optimizer state
    stays with each worker; the result is the mean of all replicas.
    """
    return Strategy(
        name="gossipgrad", consistency=LocalSteps(1), topology=Gossip(Dissemination(rotate)), merge=Mean(), shuffle=RingShuffle()
    )
