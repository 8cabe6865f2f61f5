"""Stochastic gradient push: one message a step over a directed graph, against the all-reduce."""

from __future__ import annotations

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Jitter
from polyrhythm.hardware.network import Network
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import StepCost, step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _BATCH = 16, 8
_TARGET = Target("loss", 1.0)
_STEP = Fleet((Profile("a step of 10 ms", (0.01,)),))
_VARYING = Fleet(_STEP.machines, (Jitter(0.2),))
_NEAR, _FAR = (Network.uniform("1 Gbit/s", "1 Gbit/s", latency) for latency in ("1 ms", "10 ms"))
_REDUCED, _PUSHED, _LATE = "allreduce", "sgp", "sgp, overlapped"
_ARMS: dict[str, Strategy] = {_REDUCED: find("allreduce"), _PUSHED: find("sgp"), _LATE: find("sgp", overlap=1)}


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, from the same grid."""
    grid = trial.size((0.1, 0.3, 1.0), (0.1, 0.3))
    return {arm: trial.best({rate: _train(trial, arm, rate) for rate in grid}) for arm in _ARMS}


def measure(trial: ArmTrial) -> Figures:
    """Losses at equal samples, seconds to a loss, and what a step takes and sends."""
    found = {arm: _train(trial, arm, trial.tuned[arm]) for arm in _ARMS}
    reduced, pushed, late = found.values()
    return {
        "loss": pushed.final / reduced.final,
        "overlapped loss": late.final / pushed.final,
        "sooner": reduced.seconds_to(_TARGET) / pushed.seconds_to(_TARGET),
        "overlap": _cost(_PUSHED, _WORKERS, Simulator(_FAR, _STEP)).seconds / _cost(_LATE, _WORKERS, Simulator(_FAR, _STEP)).seconds,
        "bytes": _sent(32) / _sent(4),
    }


def _train(trial: ArmTrial, arm: str, rate: float) -> Result:
    job = Teacher(SgdRecipe(rate), epochs=1, batch_size=_BATCH, samples=trial.size(38400, 7680), width=64)
    return trial.train(arm, job, _ARMS[arm], _WORKERS, Simulator(_NEAR, _VARYING, seed=trial.seed))


def _cost(arm: str, workers: int, on: Simulator) -> StepCost:
    return step_cost(timed(Teacher(width=64, batch_size=_BATCH), _ARMS[arm], workers, on), 4, 8)


def _sent(workers: int) -> float:
    """The bytes that a worker sends in a step."""
    return _cost(_PUSHED, workers, Simulator(Instant())).nbytes / workers


REPRODUCTION = Reproduction(
    name="sgp",
    systems=("sgp",),
    paper="Assran, Loizou, Ballas, Rabbat: Stochastic Gradient Push for Distributed Deep Learning (ICML 2019, arXiv:1811.10792)",
    setting="A perceptron (6,154 parameters) on points whose classes a random network gives, 16 workers in batches of 8, SGD at "
    "rates tuned on "
    "one grid, steps of 10 ms that vary by a fifth, in virtual time on 1 Gbit/s and 1 ms one way; 38,400 samples in all; seconds to a "
    "held-out loss of 1.0. The paper: ResNet-50 on ImageNet with up to 32 nodes of 8 GPUs.",
    baseline=_REDUCED,
    stop="after a number of samples that was fixed beforehand; seconds are those until the target was first reached",
    notes="What overlapping saves and what a worker sends are of steps that are timed without a training: the first of 16 workers "
    "on lines of "
    "10 ms one way, so that an exchange takes as long as a step. The all-reduce is a ring.",
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="It converges to the same quality as all-reduce SGD in as many iterations.",
            ours="held-out loss of the mean of all replicas over that of the all-reduce at equal samples",
            figure="loss",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Where communication is slow it is faster than the all-reduce (the paper: up to 3 times on 10 Gbit/s Ethernet).",
            ours="seconds of the all-reduce to the target over those of SGP",
            figure="sooner",
            unit="x",
            least=1.5,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Overlapping communication with one step of computing makes it faster still.",
            ours="seconds of a step of SGP over those of 1-overlap SGP, where an exchange takes as long as computing",
            figure="overlap",
            unit="x",
            least=1.5,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Overlapping costs no quality.",
            ours="held-out loss with an overlap of one step over that without, at equal samples",
            figure="overlapped loss",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="A node sends one message an iteration, whatever their number.",
            ours="bytes that a worker sends in a step with 32 workers over those with 4",
            figure="bytes",
            unit="ratio",
            least=0.99,
            most=1.01,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(paper="Times on 256 GPUs.", untestable="There are no GPUs here."),
    ),
)
