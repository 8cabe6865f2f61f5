"""PowerSGD: gradients as products of thin factors."""

from __future__ import annotations

from polyrhythm.codec import LowRank, Warmup
from polyrhythm.core.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial
from polyrhythm_reproductions.volume import AT_16, beside, times_fewer

_WORKERS = 4
_RANK, _WARMUP = 2, 10
_WIDTH = 128
_SHAPES = ((_WIDTH, 20), (_WIDTH, _WIDTH), (10, _WIDTH))
_BIASES = 2 * _WIDTH + 10


def measure(trial: ArmTrial) -> Figures:
    """The loss at the same number of samples: dense, of rank 2, and of rank 2 without error feedback."""
    job = Teacher(SgdRecipe(0.03, 0.9), epochs=trial.size(8, 2), width=_WIDTH)
    dense = trial.train("allreduce", job, "allreduce", _WORKERS)
    factors = trial.train("powersgd", job, find("powersgd", rank=_RANK, warmup=_WARMUP), _WORKERS)
    without = trial.train("without error feedback", job, Strategy(codec=Warmup(_WARMUP, LowRank(_RANK)), name="without"), _WORKERS)
    whole, sent = sum(m * n for m, n in _SHAPES) + _BIASES, sum(_RANK * (m + n) for m, n in _SHAPES) + _BIASES
    return {
        "loss": factors.final / dense.final,
        "points": 100 * (dense.metric("accuracy") - factors.metric("accuracy")),
        "feedback": without.final / factors.final,
        "bytes": times_fewer(job, find("powersgd", rank=_RANK, warmup=1), after=2) / (whole / sent),
        **beside(job, find("powersgd", rank=_RANK, warmup=1), after=2),
    }


REPRODUCTION = Reproduction(
    name="powersgd",
    systems=("powersgd",),
    paper="Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization (NeurIPS 2019)",
    setting="teacher (20,490 parameters in matrices of 128 x 20, 128 x 128 and 10 x 128, SGD with momentum), 4 workers in "
    "batches of 16, rank 2; "
    "the paper has ResNet-18 and an LSTM, whose matrices are larger.",
    baseline="allreduce",
    measure=measure,
    notes="Factors are summed by a ring, so that the ratio changes with the number of workers only by headers: 14.4 with 4, 12.3 with 16.",
    claims=(
        Claim(
            paper="The test performance is on par with SGD.",
            ours="accuracy lost against the dense all-reduce at equal samples",
            figure="points",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="The test performance is on par with SGD.",
            ours="held-out loss over that of the dense all-reduce at equal samples",
            figure="loss",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Without error feedback quality is lost.",
            ours="held-out loss without error feedback over that with it",
            figure="feedback",
            unit="ratio",
            least=1.05,
        ),
        Claim(
            paper="A matrix of m x n goes as r (m + n) elements.",
            ours="bytes of a dense exchange over those of rank 2, headers included, between 2 workers, divided by that formula for "
            "the whole model",
            figure="bytes",
            unit="ratio",
            least=0.9,
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Compression is by two orders of magnitude for large matrices, and less for small ones.",
            ours="bytes of a dense exchange over those of rank 2 with these small matrices, headers included, between 2 workers",
            figure="ratio",
            beside=AT_16,
            unit="ratio",
            least=10.0,
            efficiency=Efficiency.EXACT,
        ),
    ),
)
