"""FireCaffe: reduction trees instead of a parameter server, large batches, and models with few parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.topology import Server
from polyrhythm_reproductions.jobs.efficiency import efficiency
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.shapes import Shaped
from polyrhythm_reproductions.jobs.sized import Vectors
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS = 2
_BATCHES = {"batch 32": 32, "batch 128": 128}
_RATES = (0.01, 0.03, 0.1, 0.3)
_FORMULA = Simulator(network=Network.uniform("1 Gbit/s, no latency", "1 Gbit/s", 0.0), devices=Profile("no computing", (1e-9,)))
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def tune(trial: ArmTrial) -> Figures:
    """The best of four learning rates for each batch size."""
    return {
        arm: trial.best({rate: trial.train(arm, _job(trial, batch, rate), "firecaffe", _WORKERS) for rate in _RATES})
        for arm, batch in _BATCHES.items()
    }


def measure(trial: ArmTrial) -> Figures:
    """The growth of a step's seconds over a server and over a tree; two batch sizes; and two models."""
    small, large = (trial.train(arm, _job(trial, batch, trial.tuned[arm]), "firecaffe", _WORKERS) for arm, batch in _BATCHES.items())
    return {
        **_timed(trial.size(32, 8)),
        "bytes": small.outcome.summary.bytes_sent / large.outcome.summary.bytes_sent,
        "points lost": 100 * (small.metric("accuracy") - large.metric("accuracy")),
    }


@cache
def _timed(workers: int) -> Figures:
    """The figures of virtual time alone, which are the same for every seed: the models are compared on `workers`."""
    server = [_seconds(Strategy(topology=Server(1)), count) for count in _SIZES]
    tree = [_seconds("firecaffe", count) for count in _SIZES]
    conv, mlp = (efficiency(Shaped(kind), "firecaffe", workers, Simulator()) for kind in ("conv", "mlp"))
    return {
        "linear": _correlation(_SIZES, server),
        "logarithm": _correlation(np.log2(_SIZES).tolist(), tree),
        "ratio": server[5] / tree[5],
        "order": conv / mlp,
    }


def _job(trial: ArmTrial, batch: int, rate: float) -> Teacher:
    return Teacher(SgdRecipe(rate, 0.9), epochs=trial.size(8, 4), batch_size=batch)


def _seconds(strategy: str | Strategy, workers: int) -> float:
    return step_cost(timed(Vectors((25_000,)), strategy, workers, _FORMULA)).seconds


def _correlation(a: Sequence[float], b: Sequence[float]) -> float:
    return float(np.corrcoef(a, b)[0, 1] ** 2)


REPRODUCTION = Reproduction(
    name="firecaffe",
    systems=("firecaffe",),
    paper="Iandola, Moskewicz, Ashraf, Keutzer: FireCaffe (CVPR 2016, arXiv:1511.00175)",
    setting=(
        "Steps of a model of 25,000 numbers without computing on 1 to 128 workers, in virtual time on 1 Gbit/s without latency, both legs "
        "counted for the server and for the tree. Batches: teacher (20,500 parameters, SGD with momentum) on 2 workers with 32 and with "
        "128 samples each, at equal samples. Models: two of 1.8 MFLOP an image, 14,000 and 0.9 million parameters, on 32 `cpu-core` "
        "workers (8 where quick) on `lan`."
    ),
    baseline="batch 32",
    machines="Steps are timed on the networks that are named; the two trainings, whose accuracies are compared, run on `lan`.",
    tune=tune,
    measure=measure,
    notes="Seconds are of steps that are timed without arithmetic and without overlap, as in the paper's formulas.",
    claims=(
        Claim(
            paper="The time of an exchange over a parameter server grows linearly with the workers.",
            ours="squared correlation of a step's virtual seconds with P, 1 to 128",
            figure="linear",
            unit="correlation",
            least=0.99,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="The time of an exchange over a reduction tree grows with log2 P.",
            ours="squared correlation of a step's virtual seconds with log2 P",
            figure="logarithm",
            unit="correlation",
            least=0.99,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="So a tree is P / log2 P times faster: 6.4 times on 32 workers.",
            ours="virtual seconds over a server over those over a tree, 32 workers",
            figure="ratio",
            unit="ratio",
            least=0.9 * 6.4,
            most=1.1 * 6.4,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A batch four times as large sends a quarter of the bytes in an epoch.",
            ours="bytes at equal samples, batches of 32 over batches of 128",
            figure="bytes",
            unit="ratio",
            least=3.8,
            most=4.2,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="With a learning rate that is tuned for it the large batch loses no accuracy.",
            ours="accuracy on held-out points that the batches of 128 lose, each with the best of four rates",
            figure="points lost",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Models with few parameters for their arithmetic scale better.",
            ours="scaling efficiency of the convolutions over that of the perceptron",
            figure="order",
            unit="ratio",
            least=1.05,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="GoogLeNet trains 47 times faster on 128 GPUs than on one.",
            untestable="There are no such machines here, and virtual ones would only show the numbers that they were given.",
        ),
    ),
)
