"""Optimisation over a graph of workers, with nobody in the middle and no sum over all."""

from __future__ import annotations

from polyrhythm.consistency import LocalSteps
from polyrhythm.local import CorrectedWeights, TrackedGradients
from polyrhythm.merge import Mean
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.topology import Lazy, MetropolisHastings, RingGraph, WeightedGossip
from polyrhythm.topology.graph import Graph


def decentralized(tau: int = 1, graph: Graph | None = None) -> Strategy:
    """Decentralised SGD on a graph with Metropolis-Hastings weights (D-PSGD; Lian et al., NeurIPS 2017, arXiv:1705.09056).

    After `tau` local steps each worker takes the weighted mean of its weights and its neighbours', on a ring if no other `graph` is
    given. The paper steps on the gradient at the weights from before that mean; here the mean is of the weights after the step. With a
    constant learning rate and data that differ between workers it ends beside the optimum: d-squared, exact-diffusion and
    gradient-tracking do not.
    """
    topology = WeightedGossip(RingGraph() if graph is None else graph)
    return Strategy(name="decentralized", consistency=LocalSteps(tau), topology=topology, merge=Mean())


def d_squared(stay: float = 0.25, graph: Graph | None = None) -> Strategy:
    """Decentralised SGD in which differences between workers' data leave no bias (D²; Tang et al., ICML 2018, arXiv:1803.07068).

    x' = W (2 x - x⁻ - η g + η g⁻). W keeps a part `stay` of a worker's own weights and has Metropolis-Hastings weights beside that, because
    its least eigenvalue must be above -1/3: on a ring of an even number of workers 1/3 for each would make it exactly that.
    """
    topology = WeightedGossip(RingGraph() if graph is None else graph, Lazy(MetropolisHastings(), stay))
    return Strategy(name="d-squared", consistency=LocalSteps(1), topology=topology, merge=Mean(), local=CorrectedWeights())


def exact_diffusion(graph: Graph | None = None) -> Strategy:
    """Adapt, correct, combine: diffusion without its bias (Yuan, Ying, Zhao, Sayed, IEEE Transactions on Signal Processing 2019, part I).

    ψ = x - η g; φ = ψ + x - ψ⁻; x = (I + W) / 2 φ, with Metropolis-Hastings weights W on a ring if no other `graph` is given: as D², but
    with a mixing matrix without negative eigenvalues for any graph.
    """
    topology = WeightedGossip(RingGraph() if graph is None else graph, Lazy(MetropolisHastings(), 0.5))
    return Strategy(name="exact-diffusion", consistency=LocalSteps(1), topology=topology, merge=Mean(), local=CorrectedWeights())


def gradient_tracking(graph: Graph | None = None) -> Strategy:
    """Each worker steps on what tracks the mean gradient of all (DIGing; Nedic, Olshevsky, Shi, SIAM Journal on Optimization 2017).

    y' = W y + g' - g, x' = W (x - η y), with Metropolis-Hastings weights W on a ring if no other `graph` is given. Twice the bytes of
    decentralized, and the optimum with a constant learning rate.
    """
    topology = WeightedGossip(RingGraph() if graph is None else graph)
    return Strategy(name="gradient-tracking", consistency=LocalSteps(1), topology=topology, merge=Mean(), local=TrackedGradients())
