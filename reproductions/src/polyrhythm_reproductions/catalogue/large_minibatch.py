"""Large minibatches: the learning rate follows the batch, after a warm-up."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.core.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_RATES = (0.001, 0.003, 0.01)
_BATCH = 8
_WITHIN = (2, 4, 8)
_BEYOND = 64
_SMALL = "1 worker"
_UNSCALED, _SUDDEN = "8 workers, unscaled", "8 workers, no warm-up"


def _scaled(workers: int) -> str:
    return f"{workers} workers"


def _job(trial: ArmTrial, rate: float) -> Teacher:
    return Teacher(SgdRecipe(rate, 0.9, 1e-4), trial.size(6, 3), _BATCH, trial.size(8192, 4096), width=64, depth=4)


def _within(trial: ArmTrial) -> tuple[int, ...]:
    return trial.size(_WITHIN, _WITHIN[-1:])


def _warm(job: Teacher, workers: int) -> Strategy:
    """Warmed up over the first epoch."""
    return find("large-minibatch", warmup=job.samples // (job.batch_size * workers))


def tune(trial: ArmTrial) -> Figures:
    """The rate of one worker. All arms take it as it is, for that is the rule: so these runs are those that chose each one's rate."""
    rate = trial.best({rate: trial.train(_SMALL, _job(trial, rate)) for rate in _RATES})
    for arm in (*map(_scaled, (*_within(trial), _BEYOND)), _UNSCALED, _SUDDEN):
        trial.tuning_runs[arm] = trial.tuning_runs[_SMALL]
    return {"rate": rate}


def measure(trial: ArmTrial) -> Figures:
    """Accuracy after the same number of samples."""
    job = _job(trial, trial.tuned["rate"])
    most = _WITHIN[-1]
    small = _points(trial.train(_SMALL, job))
    followed = {k: _points(trial.train(_scaled(k), job, _warm(job, k), k)) for k in (*_within(trial), _BEYOND)}
    unscaled = _points(trial.train(_UNSCALED, job, "allreduce", most))
    sudden = _points(trial.train(_SUDDEN, job, find("large-minibatch", warmup=0), most))
    return _figures(small, followed) | {"unscaled": followed[most] - unscaled, "no warm-up": followed[most] - sudden}


def _figures(small: float, followed: Mapping[int, float]) -> dict[str, float]:
    lost = {k: small - points for k, points in followed.items()}
    return {"lost": max(points for k, points in lost.items() if k <= _WITHIN[-1]), "lost beyond": lost[_BEYOND]}


def _points(result: Result) -> float:
    """Its accuracy in points."""
    return 100 * result.metric("accuracy")


REPRODUCTION = Reproduction(
    name="large-minibatch",
    systems=("large-minibatch",),
    paper="Goyal et al.: Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour (2017)",
    setting=(
        "A perceptron of four hidden layers of 64 learns the classes of a random network (8,192 points, 6 epochs; 4,096 and 3 in quick "
        "runs) by SGD with momentum 0.9 and weight decay 1e-4, in batches of 8 a worker; k workers take steps on 8 k samples, and see as "
        "many samples in all. The learning rate is the best of three for one worker (in loss on held-out points); all other arms take "
        "over that rate: k workers multiply it by k, to which it grows over the first epoch. No schedule follows, where the paper "
        "divides by 10 three times. Accuracy is that of the final weights on 2,048 held-out points."
    ),
    notes=(
        "No arm but that of one worker has a rate of its own choice: that nothing is tuned again is what is claimed. The first setting had "
        "batches of 16, and with them half as many steps: 128 of 8 workers, in quick runs, which lost 5 points whether they warmed up or "
        "not. Batches and layers were made smaller and steps more, and no bound was changed. In neither setting has a warm-up made much of "
        "a difference: at the rate that is best for one worker, four hidden layers learn from the first step on at 8 times that rate."
    ),
    baseline=_SMALL,
    scaling=Scaling.WEAK,
    tune=tune,
    measure=measure,
    claims=(
        Claim(
            paper="With the learning rate scaled linearly and a gradual warm-up, large minibatches match the accuracy of small ones.",
            ours="accuracy lost against one worker, the worst of 2, 4 and 8 workers (of 8, in quick runs)",
            figure="lost",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="When the minibatch is multiplied by k, the learning rate must be multiplied by k.",
            ours="accuracy that 8 workers lose if the rate stays that of one",
            figure="unscaled",
            unit="points",
            least=2.0,
        ),
        Claim(
            paper="Without a warm-up the scaled rate is too large for the first steps, and accuracy is lost.",
            ours="accuracy that 8 workers lose without a warm-up",
            figure="no warm-up",
            unit="points",
            least=2.0,
        ),
        Claim(
            paper="Beyond some size of the minibatch, accuracy degrades rapidly.",
            ours="accuracy lost against one worker by 64 workers, scaled and warmed up",
            figure="lost beyond",
            unit="points",
            least=2.0,
        ),
        Claim(paper="ImageNet is trained in one hour on 256 GPUs.", untestable="There are neither 256 GPUs here nor ImageNet."),
    ),
)
