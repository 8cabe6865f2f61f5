"""ADMM-SGD: local problems and their consensus, and what a round of it sends (E1)."""

from __future__ import annotations

from polyrhythm.kernel.events import Agreed
from polyrhythm.reproductions.jobs.recipes import Sgd
from polyrhythm.reproductions.jobs.teacher import Teacher, student
from polyrhythm.reproductions.protocol import Claim, Efficiency, Figures, Reproduction
from polyrhythm.reproductions.trial import Result, Trial
from polyrhythm.systems import find
from polyrhythm.workloads.digits import DigitsCnn

_WORKERS, _TAU = 4, 10


def measure(trial: Trial) -> Figures:
    """The residual of a convex problem, the accuracy and bytes on digits beside parallel SGD, and the messages of a round."""
    system = find("admm-sgd", rho=0.1, tau=_TAU)
    digits = DigitsCnn(epochs=trial.size(20, 6), batch_size=8)
    parallel = trial.train("parallel SGD", digits, "allreduce", _WORKERS)
    admm = trial.train("ADMM-SGD", digits, system, _WORKERS)
    convex = Teacher(Sgd(0.02), epochs=20, batch_size=64, depth=0)
    residual = _residual(trial.train("convex", convex, system, _WORKERS))
    short, long = (
        trial.train(
            f"{rounds} rounds", Teacher(Sgd(0.02), epochs=rounds, batch_size=16, samples=16 * _WORKERS * _TAU, depth=0), system, _WORKERS
        )
        for rounds in (2, 6)
    )
    tree, nbytes = 4 * 2 * (_WORKERS - 1), 4 * sum(each.numel() for each in student(0, 0).parameters())
    return {
        "residual": residual,
        "points lost": 100 * (parallel.final - admm.final),
        "ratio": parallel.arm.bytes_sent / admm.arm.bytes_sent,
        "messages": (_messages(long) - _messages(short)) / tree,
        "bytes": (long.arm.bytes_sent - short.arm.bytes_sent) / (tree * nbytes),
    }


def _residual(result: Result) -> float:
    """That of the worker which is furthest from the consensus at the end."""
    last = {event.actor: event.figures["primal_residual"] for event in result.outcome.events if isinstance(event, Agreed)}
    return max(last.values())


def _messages(result: Result) -> int:
    return result.outcome.summary.messages_sent


REPRODUCTION = Reproduction(
    name="admm-sgd",
    systems=("admm-sgd",),
    paper="Hegde, Usmani: Parallel and Distributed Deep Learning (Stanford CME 323, 2016)",
    setting="4 workers, rho = 0.1, 10 local steps, in virtual time on `lan`: digits-cnn (21,546 parameters, SGD with momentum, batches of 8), and "
    "for the residual a convex problem, softmax regression on points whose classes a random network gives (SGD at 0.02, batches of 64).",
    rival="parallel SGD",
    measure=measure,
    claims=(
        Claim(
            paper="Workers that solve local problems come to a consensus.",
            ours="primal residual of a convex problem at the end, of the worker that is furthest off: |w_k - z| / |z|",
            figure="residual",
            unit="1",
            most=1e-2,
        ),
        Claim(
            paper="ADMM-SGD trains as parallel SGD does, which exchanges after every step.",
            ours="accuracy lost on held-out digits against parallel SGD at equal samples, of the consensus z",
            figure="points lost",
            unit="points",
            most=1.0,
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
        ),
        Claim(
            paper="Each message has the size M of the model.",
            ours="bytes of four more rounds over 4 · 2 (P - 1) M",
            figure="bytes",
            unit="ratio",
            least=1.0,
            most=1.0,
            efficiency=Efficiency.EXACT,
        ),
    ),
)
