"""A3C: actors in shared memory that solve a chain, and how much sooner many of them do."""

from __future__ import annotations

from polyrhythm.core.records.metrics import Target
from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.systems import find
from polyrhythm.workloads import ChainA3c
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_SOLVED = 0.9
_TARGET = Target("score", _SOLVED)
_MOST = 16


def measure(trial: ArmTrial) -> Figures:
    """Scores, and the virtual seconds of 1 to 16 workers until the chain is solved."""
    found = {workers: _train(trial, f"{workers} workers", "hogwild", workers) for workers in trial.size((1, 2, 4, 8, _MOST), (1, 4, _MOST))}
    seconds = {workers: result.seconds_to(_TARGET) for workers, result in found.items()}
    return {
        "score": min(result.final for result in found.values()),
        "downpour": _train(trial, "downpour", "downpour", 4).final,
        "four": seconds[1] / seconds[4],
        "sixteen": seconds[1] / seconds[_MOST],
    }


def _train(trial: ArmTrial, arm: str, system: str, workers: int) -> Result:
    job = ChainA3c(frames=trial.size(4_000, 3_000))
    return trial.train(arm, job, find(system), workers, Simulator(devices=Profile("a step of 1 ms", (1e-3,)), seed=trial.seed))


REPRODUCTION = Reproduction(
    name="a3c",
    systems=("hogwild",),
    paper="Mnih et al.: Asynchronous Methods for Deep Reinforcement Learning (ICML 2016)",
    setting=(
        "Actor-critic workers, 5 frames a step of 1 ms of virtual time, on a chain of 8 states with a small reward at its beginning and a "
        "large one at its end, whose best policy is known exactly; 1 to 16 workers on shared weights with one RMSProp for all, 4,000 "
        "frames together. A policy has solved it with 90 % of the best value."
    ),
    notes=(
        "Scaled down from Atari games: a network of 32 hidden units, and a task that one worker solves within 2,000 frames. The bounds of "
        "the speed-ups are half of the paper's (table 2: 3.7 and 12.5). The learning rate was chosen in trial runs with the seeds 0 and 1, "
        "before the bounds were set. Moments at which the policy is evaluated are 9 % apart."
    ),
    baseline="1 workers",
    scaling=Scaling.WEAK,
    measure=measure,
    claims=(
        Claim(
            paper="Actors in parallel learn a policy stably, however many they are.",
            ours="least share of the best value, of 1 to 16 workers",
            figure="score",
            unit="1",
            least=_SOLVED,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="The method is not bound to one way of sharing weights (Nair et al., 2015, have parameter servers).",
            ours="share of the best value, of 4 workers under downpour",
            figure="downpour",
            unit="1",
            least=_SOLVED,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="4 workers reach a score 3.7 times as soon as one.",
            ours="virtual seconds of 1 worker until 90 % of the best value, over those of 4",
            figure="four",
            unit="x",
            least=1.85,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="16 workers reach a score 12.5 times as soon as one.",
            ours="virtual seconds of 1 worker until 90 % of the best value, over those of 16",
            figure="sixteen",
            unit="x",
            least=6.25,
            efficiency=Efficiency.SYSTEM,
        ),
    ),
)
