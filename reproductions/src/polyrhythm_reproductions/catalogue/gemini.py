"""Offload in chunks: weights and the optimizer's state are in a file, and a step is traced to know what leaves memory next."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import nn

from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.offload import FurthestUse, LeastRecentUse, Offload
from polyrhythm.partition.offload.offload import OffloadedVectors
from polyrhythm.partition.zero.zero import Zero
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_WIDTH, _LAYERS, _STEPS, _ROWS = 48, 10, 12, 8
_CHUNK = 4096
_BUDGETS = (60_000, 80_000, 120_000)
"""Of 290 kB of weights and two numbers of Adam for each."""
_STRATEGIES: tuple[Any, ...] = ("allreduce", {"dp": Zero(1)}, {"dp": Zero(3)})


@dataclass(frozen=True)
class _Watched:
    """An `Offload` whose vectors are noted, one for each worker."""

    offload: Offload
    made: list[OffloadedVectors] = field(default_factory=list)

    def residence(self) -> OffloadedVectors:
        self.made.append(self.offload.residence())
        return self.made[-1]


def measure(trial: ArmTrial) -> Figures:
    """Runs with and without, for each budget and each way to share the state."""
    plain = [_run(trial.seed, strategy, None) for strategy in _STRATEGIES]
    equal, peaks, loads, times = list[bool](), list[float](), list[float](), list[float]()
    for budget in _BUDGETS:
        for strategy, expected in zip(_STRATEGIES, plain, strict=True):
            counts = []
            for eviction in (FurthestUse(), LeastRecentUse()):
                watched = _Watched(Offload(budget, chunk=_CHUNK, eviction=eviction))
                found = _run(trial.seed, strategy, watched)
                equal.append(found.summary.weights_sha256 == expected.summary.weights_sha256)
                peaks += [each.resident.peak / budget for each in watched.made]
                counts.append(sum(each.resident.moved["loaded"] for each in watched.made))
            loads.append(counts[0] / counts[1])
            times += [_state(strategy) / each.resident.peak for each in watched.made]
    return {"equal": sum(equal) / len(equal), "peak": max(peaks), "loads": max(loads), "times": max(times)}


def _net() -> nn.Sequential:
    layers = [each for _ in range(_LAYERS) for each in (nn.Linear(_WIDTH, _WIDTH), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(_WIDTH, 3))


def _state(strategy: Any) -> float:
    """The bytes of weights and of the optimizer's state of a worker, all of which would be in memory."""
    weights = 4 * sum(each.numel() for each in _net().parameters())
    return weights * {1: 1 + 2 / 2, 3: 3 / 2}[strategy["dp"].stage] if isinstance(strategy, dict) else 3.0 * weights


def _train(worker: Worker, seed: int) -> None:
    torch.manual_seed(seed)
    model = _net()
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
    x = torch.randn(_ROWS * _STEPS * worker.replicas, _WIDTH, generator=torch.Generator().manual_seed(seed))
    for inputs, targets in worker.batches((x, x[:, :3].sin()), batch_size=_ROWS):
        optimizer.zero_grad()
        worker.train_step(inputs, targets)
        optimizer.step()


def _run(seed: int, strategy: Any, offload: _Watched | None) -> Run:
    cut = Cut(offload=cast(Offload | None, offload))
    return run(partial(_train, seed=seed), mesh=Mesh(dp=2), cut=cut, strategy=strategy, on=Simulator(), seed=seed)


REPRODUCTION = Reproduction(
    name="gemini",
    systems=(),
    paper="Ren, Rajbhandari, Aminabadi, Ruwase, Yang, Zhang, Li, He: ZeRO-Offload (USENIX ATC 2021, arXiv:2101.06840); Fang, Zhu, Li, Su, "
    "Zhou, You: Parallel Training of Pre-Trained Models via Chunk-Based Dynamic Memory Management (PatrickStar, TPDS 2022; Gemini in "
    "Colossal-AI, arXiv:2110.14883)",
    setting="A perceptron of 11 layers (24,000 weights) with Adam for 12 steps on two replicas, which share nothing, the optimizer's "
    "state, or all (ZeRO 1 and 3). Memory and a file stand for a GPU and its host: chunks of 4 kB of weights and of the optimizer's state "
    "are in memory up to a budget of 60, 80 or 120 kB.",
    measure=measure,
    claims=(
        Claim(
            paper="Where state is kept does not change what is computed.",
            ours="share of runs that end with the bits of the run without offload",
            figure="equal",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Chunks are moved so that the device's memory always suffices.",
            ours="most bytes of chunks that were in memory at once in any step, over the budget; the largest of all runs and workers",
            figure="peak",
            unit="ratio",
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A warm-up step that is traced lets the manager evict what is used last, which moves less than recency does.",
            ours="chunks loaded with the trace over those with the least recent use; the largest ratio of all runs",
            figure="loads",
            unit="ratio",
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A model is trained whose state is several times the memory.",
            ours="bytes of all weights and states of a worker over the most that were in memory; the largest ratio",
            figure="times",
            unit="ratio",
            least=4.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(paper="13 billion parameters on one GPU, ten times as many as without.", untestable="There is no GPU here."),
    ),
)
