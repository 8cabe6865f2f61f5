"""The bytes that worker 0 sends and receives in negotiations of readiness. Reproductions of systems with negotiation count them here."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.hardware.network import Network
from polyrhythm.topology.collective.readiness.protocol import Readiness, ReadyTensor
from polyrhythm_reproductions.jobs.questions import ask

NETWORK = Network.uniform("10 Gbit/s, 50 us", "10 Gbit/s", "50 us")
WORKERS = 8
_NAMES = [f"encoder.layers.{k}.attention.weight" for k in range(160)]
_CYCLES, _STEPS = 4, 5


@cache
def root_bytes(way: Readiness) -> float:
    """Bytes that worker 0 of 8 sends and is sent in a step in which 160 tensors become ready in four cycles; the first step is left out."""
    first, all_steps = (ask(WORKERS, partial(_steps, way=way, steps=steps), NETWORK).through[0] for steps in (1, 1 + _STEPS))
    return (all_steps - first) / _STEPS


async def _steps(port: Port, group: Group, way: Readiness, steps: int) -> list[Tensor]:
    negotiator = way.negotiator(port, group)
    for _ in range(steps):
        for part in np.array_split(_NAMES, _CYCLES):
            ready = [ReadyTensor(str(name), "float32 (1024, 1024)") for name in part]
            assert len(await negotiator.negotiate(ready)) == len(ready)
    return []
