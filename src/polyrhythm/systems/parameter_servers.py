"""Servers that step on each contribution when it comes, or on a few at a time, with nobody waiting for all.

`systems` imports them; commands and `systems.find` look them up by name.
"""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, Bounded, Buffered, LocalSteps, WarmStart
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.local_rules import OneBlock
from polyrhythm.merge import Mean, Sum, VersionedMean
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import Blockwise, Server


@system(Family.ASYNCHRONOUS_SERVERS, "P M for the pushes and P M for the weights, in 2 P S messages")
def zhang_asgd(servers: int = 1) -> Strategy:
    """Asynchronous SGD with a server that steps on each gradient when it comes (Zhang, Zhang, You, Zheng, Xu, ICASSP 2013).

    A client, there a GPU, computes the gradient of a minibatch, pushes it and continues from the weights that come back; the server, there
    the host, runs the worker's optimizer on each gradient in full, and nobody waits for others: P workers move about P times as far
    as one.
    """
    return Strategy(name="zhang-asgd", consistency=Asynchronous(), topology=Server(servers), merge=Sum())


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "2 P M / n_sync in 2 P S messages every n_sync steps, after the warm start of one worker",
    n_sync="period",
)
def paine(period: int = 10, warm_start: int = 20, servers: int = 1) -> Strategy:
    """Clients that exchange every `period` minibatches, after a warm start (Paine, Jin, Yang, Lin, Huang, arXiv:1312.6186, 2013).

    A client's own optimizer, with its momentum, takes `period` steps; what they did is added to the server's weights in full, and the
    client continues from these. For the first `warm_start` steps one client trains alone, then the others take over its weights: from
    random ones, P clients that all go far between two exchanges disturb each other.
    """
    consistency = LocalSteps(period, WarmStart(warm_start))
    return Strategy(name="paine", consistency=consistency, topology=Server(servers), merge=Sum())


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "P M / τ for the pushes, and M for each read: between P M and 2 P M every τ steps",
    tau="period",
    shards="servers",
)
def consgd(period: int = 10, slack: int = 3, servers: int = 1) -> Strategy:
    """Local updates with a constant global learning rate (ConSGD; Jiang, Cui, Zhang, Yu, SIGMOD 2017).

    A clock of a worker is `period` steps of the worker's optimizer; what they did counts 1 / P when it comes, so that P updates of one
    clock make their mean. A worker may be `slack` clocks ahead of the slowest, and reads the servers only when what it has could be older
    (SSP, on which the paper builds). A straggler's update counts as much as any, however late.
    """
    return Strategy(name="consgd", consistency=LocalSteps(period, Bounded(slack * period)), topology=Server(servers), merge=Mean())


@system(Family.ASYNCHRONOUS_SERVERS, "as `consgd`", tau="period", shards="servers")
def dynsgd(period: int = 10, slack: int = 3, servers: int = 1) -> Strategy:
    """Local updates with a dynamic learning rate: the mean of each clock, revised (DynSGD; Jiang, Cui, Zhang, Yu, SIGMOD 2017).

    As `consgd`, but the d-th update of a clock counts 1 / d and revises what came of that clock before: fast workers are not held
    back by the share of those who have not come yet, and a straggler's late update moves the weights little.
    """
    return Strategy(name="dynsgd", consistency=LocalSteps(period, Bounded(slack * period)), topology=Server(servers), merge=VersionedMean())


@system(Family.ASYNCHRONOUS_SERVERS, "as `softsync`", gradients="buffer")
def asysg_con(buffer: int = 2) -> Strategy:
    """Asynchronous SGD with consistent reads (AsySG-con; Lian, Huang, Li, Liu, NIPS 2015, arXiv:1506.08272, algorithm 1).

    A worker's gradient is of one version of all weights. The server takes `buffer` of them at a time (M), from whichever workers and
    versions they are, and makes one step of their sum; nobody waits for others. M is at most the number of workers here.
    """
    return Strategy(name="asysg-con", consistency=Buffered(buffer), topology=Server(), merge=Sum())


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "P M / S for the pushes to one of S blocks, or two, and at most P M for the blocks that have changed",
    blocks="parts",
)
def asysg_incon(parts: int = 4) -> Strategy:
    """Asynchronous SGD with inconsistent reads (AsySG-incon; Lian, Huang, Li, Liu, NIPS 2015, arXiv:1506.08272, algorithm 2).

    A worker reads the weights part by part while others write, so that what it computes its gradient on were the weights at no
    moment; then it writes one of the `parts`, drawn at random. The paper has a shared memory and draws one coordinate; here each part
    is a server's, and a torn read is the same in every run with a seed. A worker's own plain SGD steps; every step counts in full.
    """
    consistency = LocalSteps(1, Asynchronous())
    return Strategy(name="asysg-incon", consistency=consistency, topology=Blockwise(parts), merge=Sum(), local=OneBlock(parts))
