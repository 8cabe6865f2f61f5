"""ZeRO: replicas that share their state have the memory of its formulas, the traffic of an all-reduce, and in stage 3 half as much more."""

from __future__ import annotations

import gc
from collections.abc import Mapping

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from polyrhythm.core.kernel.events import MemoryPeak
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.partition.group_axis import GroupAxis
from polyrhythm.partition.place import Place
from polyrhythm.partition.zero import Zero
from polyrhythm.torch_programs.simulate import simulate
from polyrhythm_reproductions.jobs.modes import BATCH, Residuals
from polyrhythm_reproductions.jobs.parts import at_every_rank, largest_gap, sent, trained
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_STAGES, _STEPS = (1, 2, 3), 20
_LAYERS, _WIDTH, _RANKS = 48, 32, 2
_BYTES = {1: 8 + 8 / _RANKS, 2: 4 + 12 / _RANKS, 3: 16 / _RANKS}
"""Of each weight in float32 with Adam: weights 4, gradients 4, and two numbers of 4 of the optimizer, whole or divided."""


def measure(trial: ArmTrial) -> Figures:
    """Differences, bytes and peaks of memory of all stages."""
    figures: dict[str, float] = {}
    gaps, ratios = [], {stage: list[float]() for stage in _STAGES}
    job = Residuals(trial.seed)
    losses = _losses(job, whole := job.build(), 0, 1)
    for stage in _STAGES:
        for ranks in (2, 4, 8):
            parts = at_every_rank(lambda place, stage=stage: _in_shards(place, job, stage), {"dp": ranks})  # type: ignore[misc]
            gaps.append(largest_gap([part for part, _ in parts], dict(whole.named_parameters())))
            weights = 4 * sum(each.numel() for each in whole.parameters())
            summed = 2 * weights * (ranks - 1) / ranks * len(losses)
            ratios[stage].append(sum(nbytes for _, nbytes in parts) / ranks / summed)
        figures |= {f"stage {stage} bytes": max(ratios[stage], key=lambda ratio: abs(ratio - 1))}
        figures |= {f"stage {stage} memory": _peak(stage) / (_LAYERS * _WIDTH**2) / _BYTES[stage]}
    return {"difference": max(gaps), **figures}


def _losses(job: Residuals, model: nn.Module, part: int, parts: int) -> list[float]:
    x, y = job.samples()
    rows = BATCH // parts

    def loss_of(step: int) -> Tensor:
        own = slice(step * BATCH + part * rows, step * BATCH + (part + 1) * rows)
        return F.cross_entropy(model(x[own]), y[own])

    return trained(model, loss_of, _STEPS)


def _in_shards(place: Place, job: Residuals, stage: int) -> tuple[Mapping[str, Tensor], int]:
    """A rank's shards after training, and the bytes that it has sent."""
    axis, model = place.axis("dp"), job.build()
    stages, _ = Zero(stage).shard(model, axis)
    rows, (x, y) = BATCH // axis.size, job.samples()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(_STEPS):
        own = slice(step * BATCH + axis.index * rows, step * BATCH + (axis.index + 1) * rows)
        optimizer.zero_grad()
        F.cross_entropy(model(x[own]), y[own]).backward()  # type: ignore[no-untyped-call]
        for each in stages:
            each.complete()
        optimizer.step()
    return dict(model.named_parameters()), sent(place)


def _peak(stage: int) -> float:
    """The most bytes of tensors that a rank holds in three steps of Adam."""

    def main() -> None:
        dist.init_process_group("polyrhythm")
        group = init_device_mesh("cpu", (_RANKS,), mesh_dim_names=("dp",))["dp"].get_group()
        model = nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(_LAYERS)))
        stages, _ = Zero(stage).shard(model, GroupAxis("dp", group))
        gc.collect()
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(1, _WIDTH)).sum().backward()
            for each in stages:
                each.complete()
            optimizer.step()
        dist.destroy_process_group()

    run = simulate(main, ranks=_RANKS, on=Simulator(), memory=True)
    return max(float(event.peak) for event in run.outcome.events if isinstance(event, MemoryPeak))


def _memory(stage: int, words: str, formula: str) -> Claim:
    return Claim(
        paper=f"Stage {stage} divides {words} among N replicas.",
        ours=f"most bytes of all tensors of a rank, of 2, over the formula for Adam in float32: {formula} of each weight",
        figure=f"stage {stage} memory",
        unit="ratio",
        least=0.95,
        most=1.05,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


def _traffic(stage: int, paper: str, least: float, most: float) -> Claim:
    return Claim(
        paper=paper,
        ours="bytes that a rank sends in a step over those of a ring all-reduce of all gradients, 2 to 8 ranks; that with the largest "
        "deviation",
        figure=f"stage {stage} bytes",
        unit="ratio",
        least=least,
        most=most,
        efficiency=Efficiency.EXACT,
        kind=ClaimKind.VALUE,
    )


REPRODUCTION = Reproduction(
    name="zero",
    systems=(),
    paper="Rajbhandari, Rasley, Ruwase, He: ZeRO: Memory Optimizations Toward Training Trillion Parameter Models (SC 2020, "
    "arXiv:1910.02054)",
    setting="Two residual blocks (1,400 parameters) trained for 20 steps of SGD with momentum on batches of 16, whole and among 2, 4 and 8 "
    "replicas. Memory is of 48 layers of 32 x 32 with Adam and one sample, so that activations are few.",
    measure=measure,
    notes="The paper's 16 bytes of a weight are 2 + 2 + 12 in mixed precision; in float32 they are 4 + 4 + 8, and the formulas are for "
    "those. The peak is of everything, with what a layer gathers while it is computed. Here a rank has its shards of weights and of "
    "gradients besides the whole ones that stages 1 and 2 keep, which the formulas have not. Odd sizes are divided by rows, so that some "
    "ranks send more than others: bytes are the mean over ranks.",
    claims=(
        Claim(
            paper="Sharing the state does not change what is computed.",
            ours="largest difference of any weight from those of one process, stages 1 to 3 on 2, 4 and 8 ranks",
            figure="difference",
            unit="difference",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        _memory(1, "the optimizer's state", "8 + 8/N bytes"),
        _memory(2, "gradients too", "4 + 12/N bytes"),
        _memory(3, "weights too", "16/N bytes"),
        _traffic(1, "Stage 1 sends no more than data parallelism.", 0.95, 1.05),
        _traffic(2, "Stage 2 sends no more than data parallelism.", 0.95, 1.05),
        _traffic(3, "Stage 3 sends 1.5 times as much.", 1.45, 1.55),
        Claim(paper="100 billion parameters on 400 GPUs at 15 PFlop/s.", untestable="There are no GPUs here."),
    ),
)
