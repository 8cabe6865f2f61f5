"""Nobody in the middle."""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.merge import Mean
from polyrhythm.shuffle import RingShuffle
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.topology import Dissemination, Gossip, PairAverages


def gossipgrad(rotate: bool = True) -> Strategy:
    """Gossip with partner rotation and a ring shuffle of samples (GossipGraD; Daily et al., 2018, arXiv:1803.05880).

    After every local step each worker sends its weights to one other on a dissemination graph, and takes the mean of its own and
    those that it hears: O(1) messages a step, whatever P is. Optimizer state stays with each worker; the result is the mean of all
    replicas. The paper overlaps the exchange with computing, layer by layer; here it follows the step.
    """
    return Strategy(
        name="gossipgrad", consistency=LocalSteps(1), topology=Gossip(Dissemination(rotate)), merge=Mean(), shuffle=RingShuffle()
    )


def adpsgd(tau: int = 1) -> Strategy:
    """Asynchronous averages of pairs (AD-PSGD; Lian, Zhang, Zhang, Liu, ICML 2018, arXiv:1710.06952).

    After every `tau` of its steps (1 in the paper) a worker of even rank asks one of odd rank, drawn at random, and both go to the mean
    of their weights; all compute on meanwhile, so that a gradient may be applied to weights that an average has moved since. Nobody waits
    for a slow worker, and the mean of all replicas moves by their steps alone. Optimizer state stays with each worker; the result is the
    mean.
    """
    return Strategy(name="adpsgd", consistency=LocalSteps(tau, Asynchronous()), topology=PairAverages(), merge=Mean())
