"""Servers that add up updates, multiply out factors of gradients, or keep blocks for tasks."""

from __future__ import annotations

import torch

from polyrhythm.codec import Cast, Identity, SufficientFactors
from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.merge import Sum
from polyrhythm.parameters import FewerAsFactors, Optionally
from polyrhythm.systems.declaration import Family, system
from polyrhythm.topology import BlockStore, Server


@system(Family.ASYNCHRONOUS_SERVERS, "P M for the pushes and P M for the weights, in 2 P S messages")
def byteps_async(servers: int = 1) -> Strategy:
    """Asynchronous training in which servers only add (BytePS; Jiang, Zhu, Lan, Yi, Cui, Guo, OSDI 2020, section 5).

    A worker's optimizer makes w' of w and its gradient; it pushes Δw = w' - w, the servers add that to their weights and answer with them.
    Under plain SGD these are the weights of an asynchronous parameter server; momentum and the like stay with each worker, where a
    parameter server would have its own. Every update counts in full, and nobody waits for others.
    """
    return Strategy(name="byteps-async", consistency=LocalSteps(1, Asynchronous()), topology=Server(servers), merge=Sum())


@system(
    Family.ASYNCHRONOUS_SERVERS,
    "4 P K (m + n) bytes for each linear layer of m outputs, n inputs and K samples that goes as factors, and P times the bytes of "
    "the rest; back, P M",
)
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


@system(
    Family.SERVERS,
    "P M for the gradients and P M for the weights, and between a slice and the worker beside it (P + 1) M and what the optimizer "
    "remembers, in 2 P (P + 1) messages; on top, P + 1 short ones to or from the driver for each slice",
    late="retry_seconds",
)
def bigdl(retry_seconds: float = 30.0, compressed: bool = False) -> Strategy:
    """Synchronous SGD as two jobs of stateless tasks over a block store (BigDL; Dai et al., SoCC 2019, arXiv:1804.05839).

    The model is one vector in as many slices as there are workers. In the first job each worker publishes its gradient, slice by slice, in
    16 bits if `compressed`; in the second, task k sums slice k of all gradients, runs the worker's optimizer on the mean and publishes the
    weights. A task whose worker is lost, or has not published after `retry_seconds`, is done again by another, with the same bits. A worker
    that is lost in the first job leaves that step, and the run, to the others; the paper has Spark compute its gradient again, which a
    training function here cannot be asked for.
    """
    codec = Cast(torch.bfloat16) if compressed else Identity()
    return Strategy(name="bigdl", topology=BlockStore(late=retry_seconds), codec=codec)
