"""Strom's thresholds: how few bytes an accuracy takes, and how that depends on tau (E7)."""

from __future__ import annotations

from polyrhythm.reproductions.protocol import Claim, Efficiency, Figures, Reproduction
from polyrhythm.reproductions.ranks import rank_correlation
from polyrhythm.reproductions.trial import Trial
from polyrhythm.systems import find
from polyrhythm.workloads.digits import DigitsMlp

_WORKERS, _TAU = 4, 4e-3
_TAUS = (1e-3, 2e-3, _TAU, 8e-3)


def measure(trial: Trial) -> Figures:
    """Bytes and accuracy of the dense all-reduce, and of each tau, at equal samples."""
    job = DigitsMlp(epochs=trial.size(6, 3), batch_size=8)
    dense = trial.train("allreduce", job, "allreduce", _WORKERS)
    by_tau = {tau: trial.train(f"tau {tau:g}", job, find("strom", tau=tau), _WORKERS) for tau in _TAUS}
    gaps = trial.train(f"tau {_TAU:g} in gaps", job, find("strom", tau=_TAU, gaps=True), _WORKERS)
    sent = {tau: float(each.outcome.summary.bytes_sent) for tau, each in by_tau.items()}
    return {
        "ratio": dense.outcome.summary.bytes_sent / sent[_TAU],
        "points lost": 100 * (dense.final - by_tau[_TAU].final),
        "bytes by tau": rank_correlation(list(sent), list(sent.values())),
        "gaps": sent[_TAU] / gaps.outcome.summary.bytes_sent,
        "speed-up": dense.seconds / by_tau[_TAU].seconds,
    }


REPRODUCTION = Reproduction(
    name="strom",
    systems=("strom",),
    paper="Strom: Scalable Distributed DNN Training Using Commodity GPU Cloud Computing (Interspeech 2015)",
    setting=(
        "digits-mlp (1.13 M parameters, SGD with momentum at 0.01), 4 workers in batches of 8, on `cpu-core` machines on `lan` (10 "
        "Gbit/s): a step computes for 3 ms. tau is in units of weights. All arms have the workload's own rate. The paper: 14.6 M "
        "parameters, frames of speech, up to 80 GPUs; its layers are larger, and its training is longer: the bound on bytes is lower "
        "here."
    ),
    rival="allreduce",
    measure=measure,
    claims=(
        Claim(
            paper="Communication falls by three orders of magnitude.",
            ours="bytes of the dense all-reduce over those with tau = 0.004 (the bound for digits-mlp: 20)",
            figure="ratio",
            unit="ratio",
            least=20.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="No accuracy is lost.",
            ours="accuracy lost with tau = 0.004 against the dense all-reduce at equal samples",
            figure="points lost",
            unit="points",
            most=1.0,
        ),
        Claim(
            paper="The threshold sets how much is sent.",
            ours="rank correlation of tau and bytes, tau from 0.001 to 0.008",
            figure="bytes by tau",
            unit="correlation",
            most=-0.99,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="Places may be compressed further, as entropy-coded distances.",
            ours="bytes with tau = 0.004 in whole words over those in gaps",
            figure="gaps",
            unit="ratio",
            least=1.5,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="80 GPUs train up to 54 times as fast as one.", untestable="The paper's cloud of GPUs and its speech data are not here."
        ),
    ),
)
