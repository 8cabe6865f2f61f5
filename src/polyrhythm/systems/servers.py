"""Servers that add up what workers did, or multiply out what they computed."""

from __future__ import annotations

from polyrhythm.codec import SufficientFactors
from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.merge import Sum
from polyrhythm.selection import FewerAsFactors, Optionally
from polyrhythm.strategy import Exchange, Strategy
from polyrhythm.topology import Server


def byteps_async(servers: int = 1) -> Strategy:
    """Asynchronous training in which servers only add (BytePS; Jiang, Zhu, Lan, Yi, Cui, Guo, OSDI 2020, section 5).

    A worker's optimizer makes w' of w and its gradient; it pushes Δw = w' - w, the servers add that to their weights and answer with them.
    Under plain SGD these are the weights of an asynchronous parameter server; momentum and the like stay with each worker, where a
    parameter server would have one of its own. Every update counts in full, and nobody waits for others.
    """
    return Strategy(name="byteps-async", consistency=LocalSteps(1, Asynchronous()), topology=Server(servers), merge=Sum())


def project_adam(batch: int = 32, servers: int = 1) -> Strategy:
    """Asynchronous servers that multiply out the gradients of linear layers (Project Adam; Chilimbi et al., OSDI 2014, section 3.3).

    Of a layer of m outputs and n inputs a worker pushes what went through it: K (m + n) numbers for a `batch` of K samples, where these are
    fewer than m n. A server multiplies, steps with the worker's optimizer, and answers with the whole layer. All other parameters go as
    gradients. Every gradient counts 1 / P, so that P workers move about as far as one (the paper: in full); nobody waits for others. The
    paper's replicas of servers, their controller, and the threads that share a worker's weights without locks are not here.
    """
    layers = Exchange(consistency=Asynchronous(), topology=Server(servers), codec=SufficientFactors())
    return Strategy(
        name="project-adam",
        selected=[(Optionally(FewerAsFactors(batch)), layers)],
        consistency=Asynchronous(),
        topology=Server(servers),
    )
