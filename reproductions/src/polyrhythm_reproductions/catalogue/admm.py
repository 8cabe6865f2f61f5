"""ADMM-SGD: local problems and their consensus, and what a round of it sends."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.kernel.events import Agreed
from polyrhythm.systems import find
from polyrhythm.workloads.digits import DigitsCnn
from polyrhythm_reproductions.jobs.own_classes import OwnClasses
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher, student
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _TAU, _ROUNDS = 4, 10, 4
_SAMPLES, _CONVEX_STEPS = 8192, 600
_TREE = 2 * (_WORKERS - 1)
"""Messages of a reduction and a broadcast."""


def measure(trial: ArmTrial) -> Figures:
    """The residual of a convex problem, the accuracy and bytes on digits compared with parallel SGD, and the messages of a round."""
    system = find("admm-sgd", proximal_weight=0.1, period=_TAU)
    digits = DigitsCnn(epochs=trial.size(20, 6), batch_size=8)
    parallel = trial.train("parallel SGD", digits, "allreduce", _WORKERS)
    admm = trial.train("ADMM-SGD", digits, system, _WORKERS)
    residual = _residual(trial.train("convex", OwnClasses(SgdRecipe(0.3), _CONVEX_STEPS, _SAMPLES // _WORKERS, _SAMPLES), system, _WORKERS))
    small, large = (_Rounds.of(trial, width) for width in (16, 64))
    return {
        "residual": residual,
        "points lost": 100 * (parallel.final - admm.final),
        "ratio": parallel.nbytes / admm.nbytes,
        "messages": large.messages / (_ROUNDS * _TREE),
        "bytes": (large.nbytes - small.nbytes) / (_ROUNDS * _TREE * (large.model - small.model)),
    }


@dataclass(frozen=True, slots=True)
class _Rounds:
    """Messages and bytes of `_ROUNDS` rounds, and the bytes of the model."""

    messages: int
    nbytes: int
    model: int

    @classmethod
    def of(cls, trial: ArmTrial, width: int) -> _Rounds:
        """The messages and bytes of a run in excess of a shorter one, without those that all send at the beginning and at the end."""
        short, long = (_counted(trial, width, rounds).outcome.summary for rounds in (2, 2 + _ROUNDS))
        model = sum(4 * each.numel() for each in student(width, 1).parameters())
        return cls((long.messages_sent or 0) - (short.messages_sent or 0), long.bytes_sent - short.bytes_sent, model)


def _counted(trial: ArmTrial, width: int, rounds: int) -> Result:
    """An epoch is a round."""
    job = Teacher(SgdRecipe(0.02), epochs=rounds, batch_size=16, samples=16 * _WORKERS * _TAU, width=width, depth=1)
    return trial.train(f"{rounds} rounds, width {width}", job, find("admm-sgd", period=_TAU), _WORKERS)


def _residual(result: Result) -> float:
    """The final residual of the worker that is furthest from the consensus, over the largest residual of any worker after any round."""
    found = [(event.actor, event.figures["primal_residual"]) for event in result.outcome.events if isinstance(event, Agreed)]
    return max(dict(found).values()) / max(residual for _, residual in found)


REPRODUCTION = Reproduction(
    name="admm-sgd",
    systems=("admm-sgd",),
    paper="Hegde, Usmani: Parallel and Distributed Deep Learning (Stanford CME 323, 2016)",
    setting="4 workers, rho = 0.1, 10 local steps, in virtual time on `lan`: digits-cnn (21,546 parameters, SGD with "
    "momentum, batches of 8), and "
    "for the residual a convex problem, softmax regression on points whose classes a random network gives, sorted by "
    "class, so that each worker has a few classes alone (gradient descent at 0.3 on a worker's whole share, 60 rounds). Messages "
    "and bytes are those of perceptrons, "
    "of rounds alone.",
    baseline="parallel SGD",
    measure=measure,
    claims=(
        Claim(
            paper="Workers that solve local problems come to a consensus, though their problems disagree.",
            ours="primal residual of a convex problem at the end over its largest value (residual: the norm of w_k - z over that of z, of "
            "the worker that is furthest off)",
            figure="residual",
            unit="ratio",
            most=0.1,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="ADMM-SGD trains as parallel SGD does, which exchanges after every step.",
            ours="accuracy lost on held-out digits against parallel SGD at equal samples, of the consensus z",
            figure="points lost",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Local solves need fewer exchanges than a step each.",
            ours="bytes of parallel SGD over those of ADMM-SGD at equal samples",
            figure="ratio",
            unit="ratio",
            least=4.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="A round is one reduction and one broadcast over a tree.",
            ours="messages of four more rounds over 4 · 2 (P - 1)",
            figure="messages",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Each message has the size M of the model.",
            ours="bytes by which four more rounds of a larger model exceed those of a smaller one, over 4 · 2 (P - 1) times "
            "the difference in size",
            figure="bytes",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
    ),
)
