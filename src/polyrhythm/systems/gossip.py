"""Gossip: workers exchange with one or a few others, without a server.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.merge import Mean, ParzenGate
from polyrhythm.shuffle import RingShuffle
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import Deferred, Dissemination, Gossip, PairAverages, PullWeights, PushParts, PushSum, PushWeights


@system(Family.GOSSIP, "P M and P D in 2 P messages; at the end 2 (P − 1) M")
def gossipgrad(rotate: bool = True, layerwise: bool = False) -> Strategy:
    """Gossip with partner rotation and a ring shuffle of samples (GossipGraD; Daily et al., 2018, arXiv:1803.05880).

    After every local step each worker sends its weights to one other on a dissemination graph, and takes the mean of these and
    those that it hears: O(1) messages a step, whatever P is. Optimizer state stays with each worker; the result is the mean of all
    replicas. With `layerwise`, as in the paper, each tensor is stepped on and sent as soon as backward() has its gradient, and
    the next forward pass waits for each layer alone: the same weights, sooner, in more messages; see `Deferred` for what it asks of a
    training function.
    """
    gossip = Gossip(Dissemination(rotate))
    topology = Deferred(gossip) if layerwise else gossip
    return Strategy(name="gossipgrad", consistency=LocalSteps(1), topology=topology, merge=Mean(), shuffle=RingShuffle())


@system(
    Family.GOSSIP,
    "at most P M / τ, in P messages every τ steps: a question and an answer for each worker of even rank; at the end 2 (P − 1) M",
    tau="period",
)
def adpsgd(period: int = 1) -> Strategy:
    """Asynchronous averages of pairs (AD-PSGD; Lian, Zhang, Zhang, Liu, ICML 2018, arXiv:1710.06952).

    After every `period` of its steps (1 in the paper) a worker of even rank asks one of odd rank, drawn at random, and both go to the mean
    of their weights; all compute on meanwhile, so that a gradient may be applied to weights that an average has moved since. Nobody waits
    for a slow worker, and the mean of all replicas moves by their steps alone. Optimizer state stays with each worker; the result is the
    mean.
    """
    return Strategy(name="adpsgd", consistency=LocalSteps(period, Asynchronous()), topology=PairAverages(), merge=Mean())


@system(Family.GOSSIP, "P M / τ in P messages every τ steps; at the end 2 (P − 1) M", tau="period")
def sgp(overlap: int = 0, period: int = 1) -> Strategy:
    """Stochastic gradient push (SGP; Assran, Loizou, Ballas, Rabbat, ICML 2019, arXiv:1811.10792).

    After every `period` local steps (1 in the paper) each worker keeps half of its weights and sends the other half to one other, 1, 2, 4,
    … places further in rank; halves of a mass go with them, and weights divided by mass are what it computes on. With `overlap` = 1 the
    half that is added is that of the exchange before, which has travelled meanwhile (1-OSGP). Other graphs:
    `Strategy(topology=PushSum(Torus()), …)`. Optimizer state stays with each worker; the result is the mean of all replicas.
    """
    graph = Dissemination(rotate=False)
    return Strategy(name="sgp", consistency=LocalSteps(period), topology=PushSum(graph, overlap), merge=Mean())


@system(Family.GOSSIP, "P M / τ in P messages every τ steps, and with pull as many short ones; at the end 2 (P − 1) M", tau="period")
def gossiping_sgd(period: int = 10, pull: bool = False) -> Strategy:
    """Gossiping SGD, by push or pull (Jin, Yuan, Iandola, Keutzer, 2016, arXiv:1611.04581).

    Every `period` local steps a worker sends its weights to another one, drawn at random, and takes the mean of these and of those that
    have come to it meanwhile; with `pull` it asks that one for its weights instead, and waits for the answer alone. Replicas of slow
    workers count as much as others, and neither way keeps the mean of all. Optimizer state stays with each worker; the result is the mean.
    """
    topology = PullWeights() if pull else PushWeights()
    return Strategy(name="gossiping-sgd", consistency=LocalSteps(period, Asynchronous()), topology=topology, merge=Mean())


@system(Family.GOSSIP, "P M / (n τ) for n parts, in P messages every τ steps", tau="period", rate="mixing_rate")
def keuper_asgd(period: int = 1, parts: int = 8, mixing_rate: float = 1.0) -> Strategy:
    """Asynchronous SGD with one-sided sends and a Parzen gate (ASGD; Keuper, Pfreundt, MLHPC 2015, arXiv:1505.04956).

    After every `period` mini-batches a worker sends one of so many `parts` of its weights to another worker, drawn at random, which may
    overwrite there what it has sent before. The receiver mixes in what its own step comes nearer to, and refuses the rest; `mixing_rate`
    is how far it goes to the mean (the paper: its step size). Nobody waits. The result is the weights of worker 0, not a mean.
    """
    return Strategy(
        name="keuper-asgd",
        consistency=LocalSteps(period, Asynchronous()),
        topology=PushParts(parts=parts),
        merge=ParzenGate(mixing_rate),
    )
