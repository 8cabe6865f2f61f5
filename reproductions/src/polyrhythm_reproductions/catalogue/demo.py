"""DeMo: momenta that stay apart but for their fast components."""

from __future__ import annotations

from polyrhythm.core.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import AdamWRecipe, SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial, Result
from polyrhythm_reproductions.volume import AT_16, beside

_WORKERS = 2
_WIDTH, _KEPT = 256, 8
_RATES = {"AdamW": (1e-3, 3e-3, 1e-2), "demo": (1e-3, 3e-3, 1e-2)}


def _decoupled() -> Strategy:
    return find("demo", kept=_KEPT)


def _run(trial: ArmTrial, arm: str, rate: float) -> Result:
    recipe = AdamWRecipe(rate) if arm == "AdamW" else SgdRecipe(rate)
    job = Teacher(recipe, epochs=trial.size(6, 2), batch_size=32, width=_WIDTH)
    return trial.train(arm, job, "allreduce" if arm == "AdamW" else _decoupled(), _WORKERS)


def tune(trial: ArmTrial) -> Figures:
    """The learning rate of each arm, of three."""
    return {arm: trial.best({rate: _run(trial, arm, rate) for rate in rates}) for arm, rates in _RATES.items()}


def measure(trial: ArmTrial) -> Figures:
    """The loss at the same number of samples, each arm at its best rate."""
    adam, decoupled = (_run(trial, arm, trial.tuned[arm]) for arm in _RATES)
    return {
        "loss": decoupled.final / adam.final,
        "points": 100 * (adam.metric("accuracy") - decoupled.metric("accuracy")),
        **beside(Teacher(width=_WIDTH), _decoupled()),
    }


REPRODUCTION = Reproduction(
    name="demo",
    systems=("demo",),
    paper="Peng, Quesnelle, Kingma: DeMo: Decoupled Momentum Optimization (2024)",
    setting="teacher with 256 units (74,000 parameters), 2 workers in batches of 32, 8 coefficients of each block of at most 64 "
    "x 64, learning "
    "rates tuned over three values each; the paper trains language models of 300 M and 1 B parameters.",
    baseline="AdamW",
    tune=tune,
    measure=measure,
    notes="Before coefficients were divided by the number of their senders it lost by 1 %; of that: where it lost, a decay of 0.95 "
    "was worse, and 32 coefficients gained 1 % of the loss, a tenth of what was missing "
    "after 768 steps; "
    "the best rate of a first grid was its largest, so that the grid was moved up, and the same rate was chosen again. What it was "
    "made for, models with matrices of thousands of rows, is not here. Bytes are those of one packet: packets are gathered by all, so that "
    "the traffic of P workers falls by 2 / P of this only, 22.6 times with 16 workers.",
    claims=(
        Claim(
            paper="Models match those trained with AdamW (the paper: or exceed them).",
            ours="held-out loss over that of AdamW at equal samples",
            figure="loss",
            unit="ratio",
            most=1.02,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Models match those trained with AdamW (the paper: or exceed them).",
            ours="accuracy lost against AdamW at equal samples",
            figure="points",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Communication falls by several orders of magnitude.",
            ours="bytes of a dense gradient over those of its packet of 8 coefficients a block, places and headers included, between 2 "
            "workers",
            figure="ratio",
            beside=AT_16,
            unit="ratio",
            least=100.0,
            efficiency=Efficiency.EXACT,
        ),
    ),
)
