"""Streaming DiLoCo: fragments, one at a time, in four bits, while training continues."""

from __future__ import annotations

from itertools import pairwise

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import AdamWRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _TAU, _FRAGMENTS, _COMPUTE = 4, 20, 3, 0.05


def measure(trial: ArmTrial) -> Figures:
    """Held-out loss, bytes of the busiest step, and virtual seconds over those of computing alone."""
    diloco = _train(trial, "DiLoCo", find("diloco", period=_TAU))
    full = _train(trial, "streaming", find("streaming-diloco", period=_TAU, parts=_FRAGMENTS, full_precision=True))
    bits = _train(trial, "streaming, 4 bits", find("streaming-diloco", period=_TAU, parts=_FRAGMENTS))
    return {
        "loss": bits.final / diloco.final,
        "peak": max(_sent(diloco)) / max(_sent(full)),
        "four bits": bits.final / full.final,
        "bytes": sum(_sent(diloco)) / sum(_sent(bits)),
        "waiting": bits.seconds / (bits.arm.steps * _COMPUTE),
    }


def _train(trial: ArmTrial, arm: str, strategy: Strategy) -> Result:
    steps = trial.size(600, 240)
    job = Teacher(AdamWRecipe(2e-3), epochs=1, batch_size=16, samples=steps * _WORKERS * 16, width=64, depth=6)
    runtime = Simulator(network=_network(), devices=Profile("a step of 50 ms", (_COMPUTE,)), seed=trial.seed)
    return trial.train(arm, job, strategy, _WORKERS, runtime)


def _network() -> Network:
    """An all-reduce of the whole model takes two steps, one of a fragment less than one."""
    return Network.uniform("12 Mbit/s", "12 Mbit/s", "1 ms")


def _sent(result: Result) -> list[int]:
    """Bytes that worker 0 sent in each step but the first, so without the weights that all begin with."""
    sent = [event.bytes_sent for event in result.outcome.events if isinstance(event, Stepped) and event.actor == worker(0)]
    return [after - before for before, after in pairwise(sent)]


REPRODUCTION = Reproduction(
    name="streaming-diloco",
    systems=("streaming-diloco",),
    paper="Douillard et al.: Streaming DiLoCo with overlapping communication (2025, arXiv:2501.18512)",
    setting="A perceptron of seven layers (22,794 parameters) on points whose classes a random network gives, AdamW at 0.002, "
    "4 workers in batches of 16, "
    "tau = 20, three fragments, applied one step late. A step takes 50 ms; an all-reduce of the whole model about 100 ms (12 "
    "Mbit/s, 1 ms).",
    baseline="DiLoCo",
    measure=measure,
    claims=(
        Claim(
            paper="Quality is similar to DiLoCo's.",
            ours="held-out loss, in 4 bits and overlapped, over that of DiLoCo at equal samples",
            figure="loss",
            unit="ratio",
            most=1.02,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Fragments that are exchanged in turn reduce the peak bandwidth.",
            ours="most bytes of a worker in a step, DiLoCo's over those of three fragments in full precision",
            figure="peak",
            unit="ratio",
            least=2.5,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="Outer gradients in four bits lose nothing.",
            ours="held-out loss with 4 bits over that in full precision",
            figure="four bits",
            unit="ratio",
            most=1.01,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Four bits and fewer at a time: less bandwidth in all.",
            ours="bytes of DiLoCo's steps over those of streaming in 4 bits",
            figure="bytes",
            unit="ratio",
            least=6.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="Communication that overlaps with computation leaves nothing to wait for.",
            ours="virtual seconds over those of computing alone",
            figure="waiting",
            unit="ratio",
            most=1.05,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.NO_WORSE,
        ),
    ),
)
