"""Polyrhythm's ways: published systems and compositions, behind pr.join. Local ways take periods that the judgements' interval divides."""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm import systems
from racing.task import Contestant, Seat, Way


def local(tau: int, codec: object, outer: bool = False) -> pr.Strategy:
    """Local steps, then all workers' updates in the words of `codec`; with `outer` DiLoCo's Nesterov step on their mean."""
    merge = pr.merge.OuterOptimizer(pr.merge.Nesterov(0.7, 0.9)) if outer else pr.merge.Mean()
    return pr.Strategy(
        consistency=pr.consistency.LocalSteps(tau), topology=pr.topology.AllReduce(pr.topology.Direct()), codec=codec, merge=merge
    )  # type: ignore[arg-type]


def free(tau: int, codec: object) -> pr.Strategy:
    """Local steps, then everyone tells everyone and waits for nobody."""
    return pr.Strategy(
        consistency=pr.consistency.LocalSteps(tau, pr.consistency.Asynchronous()), topology=pr.topology.AllToAll(), codec=codec
    )  # type: ignore[arg-type]


def late(tau: int, delay: int, codec: object) -> pr.Strategy:
    """Local steps whose update is under way for `delay` of them; no step is lost, and nobody waits."""
    topology = pr.topology.Delayed(pr.topology.AllReduce(pr.topology.Direct()), delay)
    return pr.Strategy(consistency=pr.consistency.LocalSteps(tau), topology=topology, codec=codec, local=pr.local_rules.KeepLateSteps())  # type: ignore[arg-type]


def bits() -> pr.codec.PerTensor:
    """A bit an element of the matrices, with error feedback; vectors as they are."""
    return pr.codec.PerTensor(pr.codec.ErrorFeedback(pr.codec.OneBit()))


STRATEGIES: dict[str, tuple[Callable[[], pr.Strategy], int]] = {
    "allreduce": (systems.allreduce, 1),
    "onebit": (systems.onebit, 1),
    "gossipgrad": (systems.gossipgrad, 1),
    "decentralized": (systems.decentralized, 1),
    "d-squared": (systems.d_squared, 1),
    "choco-sgd": (systems.choco_sgd, 1),
    "moshpit": (systems.moshpit, 1),
    "adpsgd": (systems.adpsgd, 1),
    "sgp": (systems.sgp, 1),
    "noloco-16": (lambda: systems.noloco(16), 16),
    "strom": (systems.strom, 1),
    "ssp": (systems.ssp, 1),
    "easgd-8": (lambda: systems.easgd(8), 8),
    "sparknet-8": (lambda: systems.sparknet(8), 8),
    "diloco-16": (lambda: systems.diloco(16), 16),
    "local-8-fp16": (lambda: local(8, pr.codec.Cast(torch.float16)), 8),
    "local-8-onebit": (lambda: local(8, bits()), 8),
    "local-16-onebit": (lambda: local(16, bits()), 16),
    "local-32-onebit": (lambda: local(32, bits()), 32),
    "local-8-topk": (lambda: local(8, pr.codec.ErrorFeedback(pr.codec.TopK(0.01))), 8),
    "local-8-lowrank": (lambda: local(8, pr.codec.ErrorFeedback(pr.codec.LowRank(2))), 8),
    "diloco-8-onebit": (lambda: local(8, bits(), outer=True), 8),
    "diloco-16-onebit": (lambda: local(16, bits(), outer=True), 16),
    "diloco-16-topk": (lambda: local(16, pr.codec.ErrorFeedback(pr.codec.TopK(0.01)), outer=True), 16),
    "lockstep-onebit": (lambda: pr.Strategy(topology=pr.topology.AllReduce(pr.topology.Direct()), codec=bits()), 1),
    "free-1-onebit": (lambda: free(1, bits()), 1),
    "free-8-onebit": (lambda: free(8, bits()), 8),
    "free-8-topk": (lambda: free(8, pr.codec.ErrorFeedback(pr.codec.TopK(0.01))), 8),
    "late-4-onebit": (lambda: late(4, 3, bits()), 4),
    "late-8-onebit": (lambda: late(8, 4, bits()), 8),
    "late-8-bf16": (lambda: late(8, 6, pr.codec.Cast(torch.bfloat16)), 8),
}
"""Each with its period: a way is judged only when it has just taken in what the others said."""

OWN_REPLICA = {
    *("decentralized", "d-squared", "choco-sgd", "moshpit", "adpsgd", "sgp", "noloco-16"),
    *("gossipgrad", "strom", "ssp", "easgd-8", "free-1-onebit", "free-8-onebit", "free-8-topk"),
    *("late-4-onebit", "late-8-onebit", "late-8-bf16"),
}
"""Nobody holds a merged model here while training goes on, or worker 0 does not: its own replica is judged."""


def named(name: str) -> pr.Strategy:
    """The strategy, called as the race calls it."""
    import dataclasses

    return dataclasses.replace(STRATEGIES[name][0](), name=name)


def attached(worker: pr.Worker, model: nn.Module, optimizer: torch.optim.Optimizer, period: int, batch: int) -> Contestant:
    """The contestant that `worker` makes of a model."""
    model, optimizer = worker.attach(model, optimizer)

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        worker.count(batch)
        optimizer.step()

    return Contestant(model, step, model, period)


def _way(name: str) -> Way:
    def start(model: nn.Module, optimizer: torch.optim.Optimizer, seat: Seat) -> Contestant:
        return attached(pr.join(named(name), seed=seat.seed), model, optimizer, STRATEGIES[name][1], seat.task.batch)

    return start


def published(name: str) -> Way:
    """A system as its paper has it, but for the options that `name` gives after it; worker 0's own replica is judged."""
    system, *given = name.split()
    options = {key: json.loads(value) for key, _, value in (each.partition("=") for each in given)}

    def start(model: nn.Module, optimizer: torch.optim.Optimizer, seat: Seat) -> Contestant:
        return attached(pr.join(systems.find(system, **options), seed=seat.seed), model, optimizer, 1, seat.task.batch)

    return start


WAYS: dict[str, Way] = {name: _way(name) for name in STRATEGIES}
