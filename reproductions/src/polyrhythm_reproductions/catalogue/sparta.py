"""SPARTA: a few weights are averaged at each step."""

from __future__ import annotations

from polyrhythm.consistency import LocalSteps
from polyrhythm.core.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm.topology import AverageWeights, Ring
from polyrhythm_reproductions.jobs.recipes import AdamWRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial
from polyrhythm_reproductions.volume import AT_16, beside

_WORKERS = 4


def _every_weight(tau: int = 1) -> Strategy:
    return Strategy(consistency=LocalSteps(tau), topology=AverageWeights(Ring()), name="every weight")


def measure(trial: ArmTrial) -> Figures:
    """The loss of the mean of all workers: every weight averaged at each step, 0.5 %, 0.1 %, and none before the end."""
    job = Teacher(AdamWRecipe(2e-3), epochs=trial.size(6, 2))
    dense = trial.train("every weight", job, _every_weight(), _WORKERS)
    half = trial.train("sparta, 0.5 %", job, find("sparta", ratio=0.005), _WORKERS)
    tenth = trial.train("sparta, 0.1 %", job, find("sparta", ratio=0.001), _WORKERS)
    apart = trial.train("apart", job, _every_weight(1_000_000), _WORKERS)
    return {
        "half": half.final / dense.final,
        "tenth": tenth.final / dense.final,
        "apart": apart.final / half.final,
        **beside(Teacher(width=512), find("sparta", ratio=0.005), dense=_every_weight()),
    }


REPRODUCTION = Reproduction(
    name="sparta",
    systems=("sparta",),
    paper="Beton, Baioumy, van der Ouderaa, Reed, Howes, Cheema: SPARTA: Sparse Parameter Averaging (2025)",
    setting="teacher (20,490 parameters, AdamW), 4 workers in batches of 16; the paper has language models and up to 16 "
    "workers. Results are the "
    "mean of all workers. Bytes are counted with 277,000 parameters, because the headers of messages are as long as 0.1 % of "
    "the small one.",
    baseline="every weight",
    measure=measure,
    notes="Both averages go around a ring, so that the ratio changes with the number of workers only by headers: 194 with 4, 179 with 16.",
    claims=(
        Claim(
            paper="Averaging 0.5 % of the parameters at each step trains as well as averaging all.",
            ours="held-out loss over that of averaging every weight at each step, at equal samples",
            figure="half",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Averaging 0.1 % of the parameters at each step trains nearly as well.",
            ours="held-out loss over that of averaging every weight at each step, at equal samples",
            figure="tenth",
            unit="ratio",
            most=1.1,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="A few parameters keep workers close to each other.",
            ours="held-out loss of the mean of workers that never met over that with 0.5 %",
            figure="apart",
            unit="ratio",
            least=1.05,
        ),
        Claim(
            paper="Communication falls more than 100 times.",
            ours="bytes of averaging every weight over those of averaging 0.5 %, headers included, between 2 workers",
            figure="ratio",
            beside=AT_16,
            unit="ratio",
            least=100.0,
            efficiency=Efficiency.EXACT,
        ),
    ),
)
