"""1-bit SGD: bits instead of floats, and what is lost without the residual (E8)."""

from __future__ import annotations

from dataclasses import replace

from polyrhythm.codec import OneBit, PerTensor, Striped, Warmup
from polyrhythm.reproductions.protocol import Claim, Efficiency, Figures, Reproduction
from polyrhythm.reproductions.trial import Trial
from polyrhythm.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm.workloads.digits import DigitsMlp

_WORKERS = 4
_WARMUP = 10


def measure(trial: Trial) -> Figures:
    """The loss on held-out digits at the same number of samples: dense, 1 bit, and 1 bit without a residual."""
    job = DigitsMlp(epochs=trial.size(8, 3), batch_size=8)
    job = replace(job, learning_rate=0.02)
    dense = trial.train("allreduce", job, "allreduce", _WORKERS)
    bits = trial.train("onebit", job, find("onebit", warmup=_WARMUP), _WORKERS)
    lost = Strategy(codec=Warmup(_WARMUP, Striped(PerTensor(OneBit()))), name="without residual")
    without = trial.train("without residual", job, lost, _WORKERS)
    return {
        "points lost": 100 * (dense.final - bits.final),
        "points lost without": 100 * (bits.final - without.final),
        "ratio": dense.outcome.summary.bytes_sent / bits.outcome.summary.bytes_sent,
    }


REPRODUCTION = Reproduction(
    name="onebit",
    systems=("onebit",),
    paper="Seide, Fu, Droppo, Li, Yu: 1-Bit Stochastic Gradient Descent (Interspeech 2014)",
    setting="digits-mlp (1.13 M parameters, SGD with momentum), 4 workers in batches of 8, on `lan` in virtual time.",
    rival="allreduce",
    measure=measure,
    claims=(
        Claim(
            paper="Gradients can be quantized to one bit with no or nearly no loss of accuracy, if the error is carried forward.",
            ours="accuracy lost against the dense all-reduce at equal samples",
            figure="points lost",
            unit="points",
            most=1.0,
        ),
        Claim(
            paper="Without error feedback training does not converge well.",
            ours="accuracy lost against 1 bit with a residual",
            figure="points lost without",
            unit="points",
            least=3.0,
        ),
        Claim(
            paper="The volume of the exchange falls by about the width of a float.",
            ours="bytes of the dense run over those of the run with 1 bit",
            figure="ratio",
            unit="ratio",
            least=10.0,
            efficiency=Efficiency.EXACT,
        ),
    ),
)
