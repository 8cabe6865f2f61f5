"""Decentralised optimisation over a graph of workers, without a server or an all-reduce.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.codec import TopK
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.local_rules import CorrectedWeights, GossipNesterov, TrackedGradients
from polyrhythm.merge import Mean
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import CompressedGossip, Gossip, Lazy, MetropolisHastings, Moshpit, RandomPairs, RingGraph, WeightedGossip
from polyrhythm.topology.graphs.graph import Graph


@system(
    Family.GRAPH,
    "the degrees of all workers times M / τ, in as many messages every τ steps: on a ring 2 P M; at the end 2 (P − 1) M",
    tau="period",
)
def decentralized(period: int = 1, graph: Graph | None = None) -> Strategy:
    """Decentralised SGD on a graph with Metropolis-Hastings weights (D-PSGD; Lian et al., NeurIPS 2017, arXiv:1705.09056).

    After `period` local steps each worker takes the weighted mean of its weights and its neighbours', on a ring if no other `graph` is
    given. The paper steps on the gradient at the weights from before that mean; here the mean is of the weights after the step. With a
    constant learning rate and data that differ between workers it keeps a bias from the optimum: d-squared, exact-diffusion and
    gradient-tracking do not.
    """
    topology = WeightedGossip(RingGraph() if graph is None else graph)
    return Strategy(name="decentralized", consistency=LocalSteps(period), topology=topology, merge=Mean())


@system(Family.GRAPH, "as `decentralized`: on a ring 2 P M in 2 P messages; at the end 2 (P − 1) M", stay="own_share")
def d_squared(own_share: float = 0.25, graph: Graph | None = None) -> Strategy:
    """Decentralised SGD in which differences between workers' data leave no bias (D²; Tang et al., ICML 2018, arXiv:1803.07068).

    x' = W (2 x - x⁻ - η g + η g⁻). W keeps a part `own_share` of a worker's own weights and has Metropolis-Hastings weights in addition,
    because its least eigenvalue must be above -1/3: on a ring of an even number of workers 1/3 for each would make it exactly that.
    """
    topology = WeightedGossip(RingGraph() if graph is None else graph, Lazy(MetropolisHastings(), own_share))
    return Strategy(name="d-squared", consistency=LocalSteps(1), topology=topology, merge=Mean(), local=CorrectedWeights())


@system(Family.GRAPH, "as `decentralized`: on a ring 2 P M in 2 P messages; at the end 2 (P − 1) M")
def exact_diffusion(graph: Graph | None = None) -> Strategy:
    """Adapt, correct, combine: diffusion without its bias (Yuan, Ying, Zhao, Sayed, IEEE Transactions on Signal Processing 2019, part I).

    ψ = x - η g; φ = ψ + x - ψ⁻; x = (I + W) / 2 φ, with Metropolis-Hastings weights W on a ring if no other `graph` is given: as D², but
    with a mixing matrix without negative eigenvalues for any graph.
    """
    topology = WeightedGossip(RingGraph() if graph is None else graph, Lazy(MetropolisHastings(), 0.5))
    return Strategy(name="exact-diffusion", consistency=LocalSteps(1), topology=topology, merge=Mean(), local=CorrectedWeights())


@system(Family.GRAPH, "twice what `decentralized` sends: on a ring 4 P M in 4 P messages; at the end 2 (P − 1) M")
def gradient_tracking(graph: Graph | None = None) -> Strategy:
    """Each worker steps on what tracks the mean gradient of all (DIGing; Nedic, Olshevsky, Shi, SIAM Journal on Optimization 2017).

    y' = W y + g' - g, x' = W (x - η y), with Metropolis-Hastings weights W on a ring if no other `graph` is given. Twice the bytes of
    decentralized, and the optimum with a constant learning rate.
    """
    topology = WeightedGossip(RingGraph() if graph is None else graph)
    return Strategy(name="gradient-tracking", consistency=LocalSteps(1), topology=topology, merge=Mean(), local=TrackedGradients())


@system(
    Family.GRAPH,
    "the degrees of all workers times B / τ, in as many messages every τ steps: on a ring 2 P B; at the end 2 (P − 1) M",
    gamma="mixing_rate",
    tau="period",
)
def choco_sgd(ratio: float = 0.1, mixing_rate: float = 0.3, period: int = 1, graph: Graph | None = None) -> Strategy:
    """Decentralised SGD with compressed messages (CHOCO-SGD; Koloskova, Stich, Jaggi, ICML 2019, arXiv:1902.00340).

    After `period` local steps a worker sends the ⌈ratio · n⌉ largest elements of the difference between its weights and what its neighbours
    remember of them, and moves by `mixing_rate` of the way to the mean of what is remembered. Any codec will do that keeps nothing back;
    the paper tunes `mixing_rate` for each.
    """
    topology = CompressedGossip(RingGraph() if graph is None else graph, MetropolisHastings(), mixing_rate)
    return Strategy(name="choco-sgd", consistency=LocalSteps(period), topology=topology, codec=TopK(ratio), merge=Mean())


@system(
    Family.GRAPH,
    "2 P M / τ in 2 P messages every τ steps, for an even number of workers",
    tau="period",
    alpha="outer_momentum",
    beta="outer_learning_rate",
    gamma="mixing_rate",
)
def noloco(period: int = 20, outer_momentum: float = 0.5, outer_learning_rate: float = 0.7, mixing_rate: float = 0.7) -> Strategy:
    """Local steps, then a step with momentum over random pairs instead of all (NoLoCo; Kolehmainen et al., 2025, arXiv:2506.10911).

    Every `period` steps (the paper: 50; its inner optimizer is Adam) the workers are paired at random; a pair exchanges its slow weights
    and what it did since, and steps on the means of both. Nobody waits for more than one other. An odd worker steps alone. The paper's
    random routes through pipeline stages are left out, for want of pipelines.
    """
    rule = GossipNesterov(outer_momentum, outer_learning_rate, mixing_rate)
    return Strategy(name="noloco", consistency=LocalSteps(period), topology=Gossip(RandomPairs()), merge=Mean(), local=rule)


@system(
    Family.GRAPH,
    "2 P (n − 1) / n M in 2 P (n − 1) messages every τ steps and round, with n workers on a line of the grid; at the end 2 (P − 1) M",
    tau="period",
)
def moshpit(period: int = 1, dimensions: int = 2, rounds: int = 1) -> Strategy:
    """Averages over groups on a virtual grid (Moshpit SGD; Ryabinin, Gorbunov, Plokhotnyuk, Pekhimenko, NeurIPS 2021, arXiv:2103.03239).

    Every `period` steps each worker averages its weights with those on its line of a grid, `rounds` times, each time along the next axis:
    with n workers a line and n^`dimensions` in all, that many rounds are the exact mean. A lost worker costs its group what it would have
    added.
    """
    return Strategy(name="moshpit", consistency=LocalSteps(period), topology=Moshpit(dimensions, rounds), merge=Mean())
