"""GPipe: micro-batches through stages, with the gradient of the whole batch, a bubble by formula, and activations that are made again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.distributed.device_mesh import init_device_mesh

from polyrhythm.core.kernel.events import MemoryPeak
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.partition.group_axis import GroupAxis
from polyrhythm.partition.pipeline import BalancedStages, GivenStages, GPipe, KeepActivations, MeanLoss, Pipelined, Recompute
from polyrhythm.partition.place import Place
from polyrhythm.torch_programs.simulate import simulate
from polyrhythm_reproductions.jobs.modes import BATCH, Residuals
from polyrhythm_reproductions.jobs.parts import at_every_rank, largest_gap, trained
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_STEPS, _SECOND = 20, 10.0
_TRANSFORMER = {2: 1.8, 4: 3.4, 8: 6.3}
"""The paper's table 2: throughput with 32 micro-batches, of K stages over 2 stages with one."""
_SKEWED = (3.0, 1.0, 1.0, 2.0, 1.0, 4.0, 2.0, 2.0)
"""The seconds of the layers of a network whose stages cannot be equal."""
_LAYERS, _WIDTH, _ROWS, _MICRO = 24, 64, 256, 8


def measure(trial: ArmTrial) -> Figures:
    """Differences of weights, virtual seconds of a step, and peaks of activations."""
    one = {stages: _seconds((1.0,) * stages, stages, 32) for stages in (2, 4, 8)}
    base = _seconds((1.0, 1.0), 2, 1)
    bubbles = [_bubble(stages, micro) for stages, micro in ((2, 4), (4, 4), (4, 16), (8, 8))]
    speeds = {stages: base / one[stages] * 32 * stages / 2 for stages in one}
    alone = sum(_SKEWED) * 3 * _SECOND * 32
    skewed = {stages: alone / _seconds(_SKEWED, stages, 32) for stages in (2, 4, 8)}
    bounds = {stages: sum(_SKEWED) / _slowest(stages) for stages in skewed}
    return {
        "difference": max(_difference(trial.seed, stages, micro) for stages in (2, 4) for micro in (1, 3, 8)),
        "bubble": max(bubbles, key=lambda ratio: abs(ratio - 1)),
        "throughput": max((speeds[stages] / _TRANSFORMER[stages] for stages in speeds), key=lambda ratio: abs(ratio - 1)),
        "skewed": max(skewed[stages] / bounds[stages] for stages in skewed),
        "gain": min(skewed[b] / skewed[a] / 2 for a, b in pairwise(skewed)),
        "activations": _activations(Recompute()) / (4 * _WIDTH * (_ROWS + _LAYERS // 2 * _ROWS // _MICRO)),
        "made again": _activations(KeepActivations()) / _activations(Recompute()),
    }


def _difference(seed: int, stages: int, micro_batches: int) -> float:
    job = Residuals(seed)
    x, y = job.samples()
    whole = job.build()
    trained(whole, lambda step: F.cross_entropy(whole(x[step * BATCH :][:BATCH]), y[step * BATCH :][:BATCH]), _STEPS)

    def program(place: Place) -> Mapping[str, Tensor]:
        pipeline = Pipelined(micro_batches=micro_batches, schedule=GPipe(), memory=Recompute()).local(
            job.build(), place, MeanLoss(F.cross_entropy)
        )
        optimizer = torch.optim.SGD(pipeline.module.parameters(), lr=0.05, momentum=0.9)
        for step in range(_STEPS):
            optimizer.zero_grad()
            pipeline.step(x[step * BATCH :][:BATCH], y[step * BATCH :][:BATCH])
            optimizer.step()
        return dict(pipeline.module.named_parameters())

    return largest_gap(at_every_rank(program, {"pp": stages}), dict(whole.named_parameters()))


class _Sleeping(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        time.sleep(seconds)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        time.sleep(2 * ctx.seconds)
        return gradient, None


class SleepingLayer(nn.Module):
    """A layer that waits in virtual time: `seconds` in its forward pass, and twice as long in its backward pass."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.weight, self.seconds = nn.Parameter(torch.ones(2)), seconds

    def forward(self, value: Tensor) -> Tensor:
        """The values times the weight."""
        found: Tensor = _Sleeping.apply(value * self.weight, self.seconds)  # type: ignore[no-untyped-call]
        return found


def _seconds(costs: tuple[float, ...], stages: int, micro_batches: int) -> float:
    """Virtual seconds of a step of layers that take so much each, among balanced stages."""

    def program(place: Place) -> float:
        model = nn.Sequential(*(SleepingLayer(_SECOND * cost) for cost in costs))
        way = Pipelined(micro_batches=micro_batches, schedule=GPipe(), division=BalancedStages(costs))
        pipeline = way.local(model, place, MeanLoss(F.mse_loss))
        before = time.monotonic()
        pipeline.step(torch.ones(micro_batches, 2), torch.zeros(micro_batches, 2))
        return time.monotonic() - before

    return max(at_every_rank(program, {"pp": stages}))


def _slowest(stages: int) -> float:
    """The seconds of the slowest stage."""
    left, found = list(_SKEWED), []
    for size in BalancedStages(_SKEWED).sizes(len(_SKEWED), stages):
        found.append(sum(left[:size]))
        del left[:size]
    return max(found)


def _bubble(stages: int, micro_batches: int) -> float:
    """The share of time in which stages wait, over (K - 1) / (M + K - 1)."""
    seconds, busy = _seconds((1.0,) * stages, stages, micro_batches), 3 * _SECOND * micro_batches
    return (1 - busy / seconds) / ((stages - 1) / (micro_batches + stages - 1))


def _activations(memory: Any) -> float:
    """The most bytes of activations at one of two stages."""

    def main() -> None:
        dist.init_process_group("polyrhythm")
        axis = GroupAxis("pp", init_device_mesh("cpu", (2,), mesh_dim_names=("pp",))["pp"].get_group())
        layers = [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh()) for _ in range(_LAYERS)]
        way = Pipelined(micro_batches=_MICRO, schedule=GPipe(), memory=memory, division=GivenStages((_LAYERS, _LAYERS)))
        pipeline = way.local(nn.Sequential(*layers), Place({"pp": axis}), MeanLoss(F.mse_loss))
        pipeline.step(torch.ones(_ROWS, _WIDTH), torch.zeros(_ROWS, _WIDTH))
        dist.destroy_process_group()

    run = simulate(main, ranks=2, on=Simulator(), memory=True)
    return max(float(event.roles["activation"]) for event in run.outcome.events if isinstance(event, MemoryPeak))


REPRODUCTION = Reproduction(
    name="gpipe",
    systems=(),
    paper="Huang et al.: GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism (NeurIPS 2019, arXiv:1811.06965)",
    setting="Two residual blocks trained for 20 steps of SGD with momentum, whole and in 2 and 4 stages with 1, 3 and 8 micro-batches. "
    "Seconds are of one step of layers that wait in virtual time, backward twice as long as forward; activations of 24 layers of 64 in 2 "
    "stages, with 8 micro-batches of 32 samples.",
    measure=measure,
    notes="Layers of the timed steps wait, and compute next to nothing: seconds are of the schedule and of messages on `lan`. Forward "
    "passes that are done again are left out of them, in both arms of each ratio. The bound of the network with unequal layers is the sum "
    "of its layers' seconds over those of the slowest of its balanced stages.",
    claims=(
        Claim(
            paper="The gradient is that of the whole mini-batch, whatever the number of stages and micro-batches.",
            ours="largest difference of any weight from those of one process after 20 steps",
            figure="difference",
            unit="difference",
            most=1e-6,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="The bubble is (K - 1) / (M + K - 1) of the time.",
            ours="share of time in which stages wait over the formula; of four pairs of K and M the farthest from 1",
            figure="bubble",
            unit="ratio",
            least=0.9,
            most=1.1,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="With 32 micro-batches in 2, 4 and 8 stages a Transformer has a throughput of 1.8, 3.4 and 6.3, where 2 stages with one "
            "have 1.",
            ours="throughput of equal layers over the paper's; of the three the farthest from 1",
            figure="throughput",
            unit="ratio",
            least=0.9,
            most=1.1,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Unequal layers, as AmoebaNet's, are bound by the slowest stage.",
            ours="speed-up of eight unequal layers over the sum of their seconds by the slowest stage's, the largest of 2, 4 and 8 stages",
            figure="skewed",
            unit="ratio",
            least=0.7,
            most=1.0,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="AmoebaNet's speed-up is less than linear.",
            ours="gain of the speed-up from twice as many stages, over 2; the smaller of from 2 to 4 and from 4 to 8",
            figure="gain",
            unit="ratio",
            most=0.9,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Activations that are made again need O(N + (L / K) (N / M)) of memory.",
            ours="most bytes of activations of a stage over those of the batch at the cut and of one micro-batch in all of its layers",
            figure="activations",
            unit="ratio",
            most=1.25,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="That is less than what is kept otherwise.",
            ours="most bytes of activations without over those with recomputation",
            figure="made again",
            unit="x",
            least=2.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="Models 25 (AmoebaNet) and 298 times (Transformer) as large on 8 and 128 accelerators, and 84.4 % on ImageNet.",
            untestable="There are no accelerators here, and no such data.",
        ),
    ),
)
