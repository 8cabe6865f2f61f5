"""Nobody in the middle."""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.merge import Mean
from polyrhythm.shuffle import RingShuffle
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.topology import Dissemination, Gossip, PairAverages, PushSum


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


def sgp(overlap: int = 0, tau: int = 1) -> Strategy:
    """Stochastic gradient push (SGP; Assran, Loizou, Ballas, Rabbat, ICML 2019, arXiv:1811.10792).

    After every `tau` local steps (1 in the paper) each worker keeps half of its weights and sends the other half to one other, 1, 2, 4, …
    places further in rank; halves of a mass go with them, and weights divided by mass are what it computes on. With `overlap` = 1 the
    half that is added is that of the exchange before, which has travelled meanwhile (1-OSGP). Other graphs:
    `Strategy(topology=PushSum(Torus()), …)`. Optimizer state stays with each worker; the result is the mean of all replicas.
    """
    graph = Dissemination(rotate=False)
    return Strategy(name="sgp", consistency=LocalSteps(tau), topology=PushSum(graph, overlap), merge=Mean())
