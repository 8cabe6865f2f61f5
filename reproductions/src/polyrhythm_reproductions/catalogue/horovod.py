"""Horovod: tensor fusion, its autotuning, and the response cache."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.systems import find
from polyrhythm.tools.measuring.timing import simulate_timing
from polyrhythm.topology import Autotune, Fused, ResponseCache, RootCoordinator
from polyrhythm_reproductions.jobs.differences import largest_difference
from polyrhythm_reproductions.jobs.negotiation import root_bytes
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.sized import Vectors
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import StepCost, step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS = 3
_ON = Simulator(network=Network.uniform("1 Gbit/s, 1 ms", "1 Gbit/s", "1 ms"), devices=Profile("5 ms a step", (0.005,)))
_TUNED_ON = Simulator(network=Network.uniform("200 Mbit/s, 1 ms", "200 Mbit/s", "1 ms"), devices=Profile("30 ms a step", (0.03,)))
_LEAST, _MOST = 2**14, 2**22
"""Bytes of the buffers that are tried."""
_MANY = Vectors((4000,) * 24)


def measure(trial: ArmTrial) -> Figures:
    """Steps with fusion and without, weights with it and without, the result of tuning compared with a grid, and the cache's bytes."""
    sizes = np.random.default_rng(trial.seed).integers(1024, 16 * 1024, 200) // 4
    small = Vectors(tuple(sizes.tolist()))
    alone, fused = _step(small, 0), _step(small, 64 * 2**20)
    dominated = Vectors((4_000_000, 16))
    job = Teacher(SgdRecipe(0.03, 0.9), epochs=1, batch_size=16, samples=trial.size(4096, 1024))
    unfused = trial.train("unfused", job, find("horovod", bucket_bytes=0), 2)
    plain = trial.train("fused", job, "horovod", 2)
    return {
        "small": alone.seconds / fused.seconds,
        "collectives": alone.messages / fused.messages,
        "dominated": _step(dominated, 0).seconds / _step(dominated, 64 * 2**20).seconds,
        "difference": largest_difference(unfused.outcome.weights, plain.outcome.weights),
        "tuned": _tuned_beside_a_grid(),
        "cache": root_bytes(RootCoordinator()) / root_bytes(ResponseCache()),
    }


def _step(job: Vectors, fusion_bytes: int) -> StepCost:
    return step_cost(timed(job, find("horovod", bucket_bytes=fusion_bytes), _WORKERS, _ON))


@cache
def _tuned_beside_a_grid() -> float:
    """The last step after 40 samples, over that of the best of a grid of 35 settings."""
    cycles = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2)
    grid = [_last_step(Fused(nbytes=2**k, cycle_seconds=cycle), 3) for k in (14, 16, 18, 20, 22) for cycle in cycles]
    start = Fused(nbytes=_LEAST, cycle_seconds=0.05)
    tuned = replace(start, tuning=Autotune(steps=2, nbytes=(_LEAST, _MOST)))
    return _last_step(tuned, 1 + 40 * 2 + 2) / min(grid)


def _last_step(topology: Fused, steps: int) -> float:
    """The seconds of the last of `steps` steps at two workers."""
    events = simulate_timing(_MANY, workers=2, strategy=Strategy(topology=topology), steps=steps, on=_TUNED_ON).outcome.events
    ends = [event.time for event in events if isinstance(event, Stepped) and event.actor == worker(0)]
    return ends[-1] - ends[-2]


REPRODUCTION = Reproduction(
    name="horovod",
    systems=("horovod",),
    paper="Sergeev, Del Balso: Horovod (2018, arXiv:1802.05799)",
    setting=(
        "200 tensors of 1 to 16 KB, or one of 16 MB beside a small one, on 3 workers, in virtual time: 1 Gbit/s, 1 ms, 5 ms of computing a "
        "step. Autotuning: 24 tensors of 16 KB on 2 workers, 200 Mbit/s, 1 ms, 30 ms. Readiness: 160 tensors on 8 workers. Numerics: "
        "teacher, SGD with momentum, 2 workers in batches of 16 on `lan`."
    ),
    baseline="unfused",
    machines="Steps of several sizes are timed on networks that are named; the two trainings, whose weights are compared, on `lan`.",
    measure=measure,
    notes=(
        "Seconds are of steps that are timed without arithmetic; computing takes what the setting says. Without fusion tensors are "
        "summed one after another, as by the one background thread of Horovod. Settings that Autotune finds are compared with a grid of "
        "5 buffers and 7 cycles."
    ),
    claims=(
        Claim(
            paper="Fusing tensors before they are reduced makes steps faster where there are many small ones.",
            ours="virtual seconds of a step without fusion over those with it, 200 tensors of 1 to 16 KB",
            figure="small",
            unit="ratio",
            least=1.5,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Fusion reduces many tensors in one collective.",
            ours="messages of a step without fusion over those with it",
            figure="collectives",
            unit="ratio",
            least=5.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="Fusion is about latency: where one tensor dominates there is nothing to gain.",
            ours="virtual seconds of a step without fusion over those with it, one tensor of 16 MB",
            figure="dominated",
            unit="ratio",
            least=1 / 1.05,
            most=1.05,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Fusion does not change what is computed.",
            ours="largest difference of any weight after a training",
            figure="difference",
            unit="difference",
            most=1e-6,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Autotuning finds a fusion buffer and a cycle time by Bayesian optimisation.",
            ours="virtual seconds of a step after 40 samples over those of the best of 35 settings",
            figure="tuned",
            unit="ratio",
            most=1.1,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="A response cache takes the place of negotiation by names once the tensors are known.",
            ours="bytes of negotiation through worker 0 in a step by names over those with the cache",
            figure="cache",
            unit="ratio",
            least=4.0,
            efficiency=Efficiency.EXACT,
        ),
    ),
)
