"""Replicas of a pipeline's stages: lost workers, unequal machines, random routes, and outer steps of each stage between sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.faults import Crash
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.hardware.network import Network
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.pipeline import AroundLost, ByMeasuredSpeed, GPipe, Pipelined, RandomRoutes
from polyrhythm.systems import find
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_WIDTH, _STEPS, _PERIOD = 16, 20, 5
_CORE = Device("core", 1e6, 0.0)
_NEAR = Network.uniform("near", "10 Gbit/s", "1 us")
_MACHINES = (1.0, 1.0, 1.0, 0.25)
"""Speeds by stage, then replica."""


def measure(trial: ArmTrial) -> Figures:
    """Differences of weights, ratios of virtual seconds, of variances, of bytes and of losses."""
    steps = trial.size(_STEPS, 10)
    return {
        "difference": _difference(trial.seed, steps),
        "bubbles": max(_slowdown(trial.seed, stage) for stage in range(4)) / (4 / 3),
        "speeds": _by_speed(trial.seed),
        "agreement": _apart(trial.seed, RandomRoutes(trial.seed)) / _apart(trial.seed, None),
        **_sites(trial.seed, 4 * steps),
    }


def _net(seed: int, stages: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh()) for _ in range(stages)))


def _batch(seed: int, step: int, replica: int, rows: int = 32) -> tuple[Tensor, Tensor]:
    x = torch.randn(rows, _WIDTH, generator=torch.Generator().manual_seed(10_000 * seed + 100 * step + replica))
    return x, (2 * x + 0.3 * replica).sin()


def _program(seed: int, stages: int, steps: int, seen: Callable[[Worker, nn.Module, Tensor], None]) -> Callable[[Worker], None]:
    def train(worker: Worker) -> None:
        model: nn.Module = _net(seed, stages)
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
        loss = torch.zeros(())
        for step in worker.range(steps):
            worker.count(32 if worker.counts_samples else 0)
            optimizer.zero_grad()
            loss = worker.train_step(*_batch(seed, step, worker.replica))
            optimizer.step()
        seen(worker, model, loss)

    return train


def _nothing(worker: Worker, model: nn.Module, loss: Tensor) -> None:
    """Nobody looks."""


def _difference(seed: int, steps: int) -> float:
    """Of weights after four of nine workers were lost, from those of a run without a loss."""
    mesh, cut = Mesh(dp=3, pp=3), Cut(pipeline=Pipelined(micro_batches=4, routes=AroundLost()))
    whole = run(_program(seed, 3, steps, _nothing), mesh=mesh, cut=cut, on=Simulator(network=_NEAR, devices=_CORE, seed=seed))
    end = whole.summary.virtual_seconds or 0.0
    faults = tuple(Crash(f"worker/{rank}", share * end) for rank, share in ((0, 0.15), (4, 0.4), (8, 0.55), (5, 0.8)))
    on = Simulator(network=_NEAR, devices=_CORE, seed=seed, faults=faults)
    found = run(_program(seed, 3, steps, _nothing), mesh=mesh, workers=Crew(3, 9, replace=False), cut=cut, on=on)
    return max(float((value - whole.weights[name]).abs().max()) for name, value in found.weights.items())


def _step_seconds(seed: int, stages: int, replicas: int, routes: Any, devices: Any, micro_batches: int) -> float:
    """Of the last of some steps."""
    cut = Cut(pipeline=Pipelined(micro_batches=micro_batches, schedule=GPipe(), routes=routes))
    on = Simulator(network=_NEAR, devices=devices, seed=seed)
    found = run(_program(seed, stages, 4, _nothing), mesh=Mesh(pp=stages, dp=replicas), cut=cut, on=on)
    ends = [max(event.time for event in found.outcome.events if isinstance(event, Stepped) and event.clock == step) for step in (3, 4)]
    return ends[1] - ends[0]


def _slowdown(seed: int, stage: int) -> float:
    """Seconds of a step of 4 stages with 4 replicas and 8 micro-batches, of which one worker is lost, over those without."""
    lost, none = (_step_seconds(seed, 4, 4, routes, _CORE, 8) for routes in (AroundLost(frozenset({(stage, 0)})), AroundLost()))
    return lost / none


def _by_speed(seed: int) -> float:
    """The gain of measured speeds over equal shares, over the formula's."""
    machines = Fleet((_CORE,), (Mixed(_MACHINES),))
    equal, routed = (_step_seconds(seed, 2, 2, routes, machines, 32) for routes in (AroundLost(), ByMeasuredSpeed()))
    together, slowest = min(sum(_MACHINES[:2]), sum(_MACHINES[2:])) / 2, min(_MACHINES)
    return equal / routed / (together / slowest)


def _apart(seed: int, routes: Any) -> float:
    """The variance over four replicas after steps without an exchange of weights."""
    found: dict[int, list[Tensor]] = {}

    def seen(worker: Worker, model: nn.Module, loss: Tensor) -> None:
        found.setdefault(worker.rank % 2, []).append(torch.cat([each.detach().view(-1) for each in model.parameters()]))

    cut = Cut(pipeline=Pipelined(micro_batches=4, routes=routes))
    local = find("local-sgd", period=1000)
    run(_program(seed, 2, 20, seen), mesh=Mesh(dp=4, pp=2), cut=cut, strategy=local, on=Simulator(seed=seed))
    return sum(float(torch.stack(each).var(0).sum()) for each in found.values())


def _sites(seed: int, steps: int) -> dict[str, float]:
    """Between two sites, each with a pipeline: bytes of an all-reduce in each step over DiLoCoX's, and losses."""
    sent, losses = {}, {}
    for name, options in (("allreduce", {}), ("diloco", {"period": _PERIOD}), ("diloco-x", {"period": _PERIOD, "rank": 4})):
        ends: list[float] = []
        cut = Cut(pipeline=Pipelined(micro_batches=4))
        seen = _collector(ends)
        tried = run(
            _program(seed, 2, steps, seen),
            mesh=Mesh(site=2, pp=2),
            cut=cut,
            strategy={"site": find(name, **options)},
            on=Simulator(seed=seed),
        )
        within = run(_program(seed, 2, steps, _nothing), mesh=Mesh(pp=2), cut=cut, on=Simulator(seed=seed)).summary.bytes_sent
        sent[name] = tried.summary.bytes_sent - 2 * within
        losses[name] = sum(ends) / len(ends)
    return {"bytes": sent["allreduce"] / sent["diloco-x"], "loss": losses["diloco-x"] / losses["diloco"]}


def _collector(ends: list[float]) -> Callable[[Worker, nn.Module, Tensor], None]:
    return lambda worker, model, loss: ends.append(float(loss))


REPRODUCTION = Reproduction(
    name="stage-replicas",
    systems=("diloco-x",),
    paper="Gandhi et al.: ReCycle: Resilient Training of Large DNNs using Pipeline Adaptation (SOSP 2024, arXiv:2405.14009); Ryabinin et "
    "al.: SWARM Parallelism (ICML 2023, arXiv:2301.11913); NoLoCo (2025, arXiv:2506.10911); Qi et al.: DiLoCoX (2025, arXiv:2506.21263)",
    setting="Perceptrons of width 16 with one layer a stage, SGD, in virtual time. ReCycle: three stages with three replicas, of which "
    "four workers crash, and four with four that have eight micro-batches each. SWARM: two stages with two machines, one of which has a "
    "quarter of the others' speed, 32 micro-batches. NoLoCo: two stages with four replicas, whose samples differ, 20 steps without an "
    "exchange of weights. DiLoCoX: two sites with two stages each, 80 steps, an outer step in every 5, rank 4.",
    measure=measure,
    notes="ReCycle's planner is left out: each seat does what it can as soon as it can, with whole backward passes. Bytes of DiLoCoX are "
    "those of all messages, headers and the beginning too, less those inside of the sites; at a width of 16 headers are a good part.",
    claims=(
        Claim(
            paper="ReCycle goes on with any number of failures as long as each stage has a worker, and computes the same.",
            ours="largest difference of any weight after four of nine workers were lost from that of a run without a loss",
            figure="difference",
            unit="difference",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A lost worker's micro-batches fit into its peers' bubbles.",
            ours="slowdown of a step by one lost worker of four at a stage, the largest of four stages, over 4 / 3, the work of its peers",
            figure="bubbles",
            unit="ratio",
            most=0.98,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="SWARM's stages have the throughput of their machines together.",
            ours="gain of measured speeds over equal shares, over the ratio of the least sum of a stage's speeds to the slowest machine's",
            figure="speeds",
            unit="ratio",
            least=0.9,
            most=1.1,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="NoLoCo's random routes make replicas agree more.",
            ours="variance of weights over replicas with random routes over that without",
            figure="agreement",
            unit="ratio",
            most=0.9,
        ),
        Claim(
            paper="DiLoCoX sends far less between sites than an all-reduce in each step (357 times the throughput at 1 Gbit/s).",
            ours="bytes between sites of an all-reduce in each step over those of DiLoCoX",
            figure="bytes",
            unit="x",
            least=5.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="It trains as well as without delay and compression.",
            ours="training loss at the end over that of DiLoCo with the same period",
            figure="loss",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="1.46 times the throughput of Oobleck and 1.64 times Bamboo's; 107 billion parameters over 1 Gbit/s.",
            untestable="There are neither those systems nor such models here.",
        ),
    ),
)
