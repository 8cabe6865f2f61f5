"""Buckwild!: weights of few bits that are rounded without bias."""

from __future__ import annotations

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import Profile
from polyrhythm.merge import Sum
from polyrhythm.systems import find
from polyrhythm.topology import FixedPointMemory, NearestRounding
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS = 4
_FULL, _EIGHT, _SIXTEEN, _NEAREST = "hogwild", "8 bits", "16 bits", "8 bits, to the nearest"
_MEMORY = FixedPointMemory(8, NearestRounding())
_ARMS: dict[str, Strategy] = {
    _FULL: find("hogwild"),
    _EIGHT: find("buckwild"),
    _SIXTEEN: find("buckwild", bits=16),
    _NEAREST: Strategy(name="nearest", consistency=LocalSteps(1, Asynchronous()), topology=_MEMORY, merge=Sum()),
}


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, from the same grid."""
    grid = trial.size((0.003, 0.01, 0.03), (0.01, 0.03))
    return {arm: trial.best({rate: _train(trial, arm, rate) for rate in grid}) for arm in _ARMS}


def measure(trial: ArmTrial) -> Figures:
    """Held-out loss of each arm relative to weights in full precision; the nearest at the rate of these too."""
    found = {arm: _train(trial, arm, trial.tuned[_FULL if arm == _NEAREST else arm]).final for arm in _ARMS}
    return {arm: found[arm] / found[_FULL] for arm in (_EIGHT, _SIXTEEN, _NEAREST)}


def _train(trial: ArmTrial, arm: str, rate: float) -> Result:
    job = Teacher(SgdRecipe(rate), epochs=trial.size(6, 3), samples=trial.size(8192, 2048), depth=0)
    runtime = Simulator(devices=Profile("a step of 1 ms", (1e-3,)), seed=trial.seed)
    return trial.train(arm, job, _ARMS[arm], _WORKERS, runtime)


REPRODUCTION = Reproduction(
    name="buckwild",
    systems=("buckwild", "hogwild"),
    paper="De Sa, Zhang, Olukotun, Ré: Taming the Wild: A Unified Analysis of Hogwild!-Style Algorithms (NIPS 2015)",
    setting=(
        f"Logistic regression (10 classes that a random network gives to points in 20 dimensions), {_WORKERS} workers in batches of "
        f"16 in "
        "virtual time (a step takes 1 ms) on shared weights of 32, 16 or 8 bits, at a rate tuned for each arm on one grid. Rounding "
        "to the "
        "nearest takes the rate of 32 bits."
    ),
    notes=(
        "In virtual time no write is lost. The paper's data are in few bits too, and its models larger. Rounding to the nearest with "
        "a rate of its own takes the largest of the grid, with which steps are large enough to be taken. Random rounding to 8 bits "
        "comes to more than twice the increase that the paper allows, at the best rate of three and with all five seeds: its noise "
        "stays, since the rate does not fall."
    ),
    baseline=_FULL,
    measure=measure,
    tune=tune,
    claims=(
        Claim(
            paper="8 bits with unbiased rounding: statistical efficiency is nearly that of full precision (loss within 1 %).",
            ours="held-out loss with weights of 8 bits over that of 32",
            figure=_EIGHT,
            unit="ratio",
            most=1.01,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="16 bits are as good as full precision.",
            ours="held-out loss with weights of 16 bits over that of 32",
            figure=_SIXTEEN,
            unit="ratio",
            most=1.01,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Rounding must be unbiased: to the nearest, small updates are lost.",
            ours="held-out loss with 8 bits and rounding to the nearest over that of 32 bits",
            figure=_NEAREST,
            unit="ratio",
            least=1.05,
        ),
        Claim(
            paper="Up to 2.3 times as fast, since fewer bytes go through memory.",
            untestable="A step's gradient is computed by PyTorch in 32 bits here, which takes more time than what goes through the shared "
            "memory; that is a quarter of the bytes with 8 bits.",
        ),
    ),
)
