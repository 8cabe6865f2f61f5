"""Adversaries over several workers: equal to one process, and how many modes they cover with how much synchronisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor

from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Profile
from polyrhythm.systems import find
from polyrhythm.workloads import GanRing
from polyrhythm_reproductions.jobs.one_synchronised import only
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS, _BATCH, _STEPS = 4, 32, 20
_JOB = GanRing(batch_size=_BATCH, epochs=16)
_ONE = "1 process"
_ARMS: dict[str, Callable[[], Strategy]] = {
    "both": partial(find, "allreduce"),
    "both, every 5": partial(find, "sparknet", period=5),
    "both, every 20": partial(find, "sparknet", period=20),
    "generator only": partial(only, "generator"),
    "discriminator only": partial(only, "discriminator"),
}


def measure(trial: ArmTrial) -> Figures:
    """Modes covered by each arm, and differences of weights from one process after 20 steps."""
    job = replace(_JOB, epochs=trial.size(_JOB.epochs, 1))
    runtime = Simulator(devices=Profile("a step of 1 ms", (1e-3,)), seed=trial.seed)
    found = {arm: trial.train(arm, job, make(), _WORKERS, runtime).final for arm, make in _ARMS.items()}
    found[_ONE] = trial.train(_ONE, replace(job, batch_size=_WORKERS * _BATCH), "single", 1, runtime).final
    found["networks"] = _difference(trial.seed)
    return found


def _difference(seed: int) -> float:
    """The largest difference of a weight after 20 steps, of several workers from one with the batch of all."""

    def weights(workers: int, system: str) -> dict[str, Tensor]:
        job = replace(_JOB, samples=_STEPS * _WORKERS * _BATCH, epochs=1, batch_size=_WORKERS * _BATCH // workers)
        return dict(run(job, workers=workers, strategy=system, on=Simulator(seed=seed), seed=seed).weights)

    one, several = weights(1, "single"), weights(_WORKERS, "allreduce")
    return max(float((several[name] - each).abs().max()) for name, each in one.items())


def _modes(arm: str, paper: str) -> Claim:
    return Claim(paper=paper, ours=f"modes covered of 8: {arm}, 4 workers", figure=arm, unit="1", least=7.0, beside=_ONE)


REPRODUCTION = Reproduction(
    name="gan",
    systems=(),
    paper=(
        "Goodfellow, Pouget-Abadie, Mirza, Xu, Warde-Farley, Ozair, Courville, Bengio: Generative Adversarial Nets (NIPS 2014), "
        "over several workers"
    ),
    setting=(
        "Eight Gaussians in a ring, 4,096 points, perceptrons of two hidden layers of 128, Adam at 0.001 and 0.002; 4 virtual "
        "workers with batches of 32 for 16 epochs (512 steps), and one process with batches of 128. A mode is covered if a quarter "
        "of its share of 2,000 generated points is within four deviations. The generator is that of the run's result, a mean of the "
        "workers' where they differ."
    ),
    notes=(
        "The paper makes no claim about several workers; the bounds are those of a model that has not lost modes, and an untrained "
        "generator covers none. Rates were chosen by hand with one process. With the discriminator only, each worker has a "
        "generator of its own, and the mean of their weights at the end is none of them."
    ),
    baseline=_ONE,
    scaling=Scaling.STRONG,
    measure=measure,
    claims=(
        Claim(
            paper="Both networks train over several workers as in one process.",
            ours="largest difference of a weight from one process with the batch of all 4 workers, after 20 steps",
            figure="networks",
            unit="1",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        _modes("both", "The generator comes to the distribution of the data: gradients of both networks summed at every step."),
        _modes("both, every 5", "The same, where weights of both are averaged every 5 local steps."),
        _modes("both, every 20", "The same, every 20 local steps."),
        _modes("generator only", "The same, where each worker has a discriminator of its own."),
        _modes("discriminator only", "The same, where each worker has a generator of its own."),
    ),
)
