"""Readiness by bits: what the coordinator no longer carries, and one order everywhere."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.topology import BitVector, RootCoordinator
from polyrhythm.topology.collective.readiness.protocol import ReadyTensor
from polyrhythm_reproductions.jobs.negotiation import NETWORK, WORKERS, root_bytes
from polyrhythm_reproductions.jobs.questions import ask
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_NAMES = [f"layers.{k}.weight" for k in range(5)]
_SHUFFLES = 1000


def measure(trial: ArmTrial) -> Figures:
    """Bytes through worker 0 once all is cached, by names and by bits; and what 8 workers release whose gradients come in any order."""
    found = [answer[0] for answer in ask(WORKERS, partial(_shuffled, seed=trial.seed), NETWORK, trial.seed).tensors]
    rounds = [each.view(_SHUFFLES, len(_NAMES)) for each in found]
    differ = sum(any(not torch.equal(mine[k], rounds[0][k]) for mine in rounds) for k in range(_SHUFFLES))
    return {"ratio": root_bytes(RootCoordinator()) / root_bytes(BitVector()), "orders": differ}


async def _shuffled(port: Port, group: Group, seed: int) -> list[Tensor]:
    """The numbers of the tensors in the order of their release, in steps in which each worker has its own order and pace."""
    negotiator, draw, released = BitVector().negotiator(port, group), np.random.default_rng((seed, group.rank)), list[int]()
    for _ in range(_SHUFFLES):
        coming, ready, end = draw.permutation(len(_NAMES)).tolist(), list[int](), len(released) + len(_NAMES)
        while len(released) < end:
            count = int(draw.integers(1, 4))
            ready, coming = ready + coming[:count], coming[count:]
            done = await negotiator.negotiate([ReadyTensor(_NAMES[k], "float32 (2,)") for k in ready])
            released += [_NAMES.index(name) for name in done]
            ready = [k for k in ready if _NAMES[k] not in done]
    return [torch.tensor(released)]


REPRODUCTION = Reproduction(
    name="bitvector",
    systems=("bitvector",),
    paper="Laanait et al.: Exascale Deep Learning for Scientific Inverse Problems (2019, arXiv:1909.11150)",
    setting="8 virtual workers that negotiate 160 tensors in four cycles a step, and 5 tensors in 1,000 shuffled orders.",
    measure=measure,
    claims=(
        Claim(
            paper="Once tensors are cached, an all-reduce of bits takes the place of names at a coordinator.",
            ours="bytes of negotiation through worker 0 in a step by names, over those by bits",
            figure="ratio",
            unit="ratio",
            least=10.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="All workers launch the same reductions in the same order without a coordinator.",
            ours="shuffles of 1,000 after which two workers had different orders",
            figure="orders",
            unit="trials",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Training scales with an efficiency of 0.93 to 27,600 V100 GPUs.",
            untestable="There are no such machines here, and virtual ones would only show the numbers that they were given.",
        ),
    ),
)
