"""TernGrad: gradients of three values."""

from __future__ import annotations

import math

from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial
from polyrhythm_reproductions.volume import AT_16, beside

_WORKERS = 4


def measure(trial: ArmTrial) -> Figures:
    """Accuracy at the same number of samples: dense, three values of clipped gradients, and three values of gradients as they are."""
    job = Teacher(SgdRecipe(0.03, 0.9), epochs=trial.size(8, 2))
    dense = trial.train("allreduce", job, "allreduce", _WORKERS)
    ternary = trial.train("terngrad", job, find("terngrad"), _WORKERS)
    unclipped = trial.train("without clipping", job, find("terngrad", clip=math.inf), _WORKERS)
    return {
        "points": 100 * (dense.metric("accuracy") - ternary.metric("accuracy")),
        "clipping": unclipped.final / ternary.final,
        **beside(job, find("terngrad")),
    }


REPRODUCTION = Reproduction(
    name="terngrad",
    systems=("terngrad",),
    paper="Wen, Xu, Yan, Wu, Wang, Chen, Li: TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning "
    "(NeurIPS 2017)",
    setting="teacher (20,490 parameters, SGD with momentum), 4 workers in batches of 16; the paper has image networks up to GoogLeNet.",
    baseline="allreduce",
    measure=measure,
    notes="Bytes are those of one packet: packets are gathered by all, so that the traffic of P workers falls by 2 / P of this only, 7.9 "
    "times with 4 workers and 2.0 times with 16.",
    claims=(
        Claim(
            paper="The accuracy of GoogLeNet falls by less than 2 % on average, and that of AlexNet not at all.",
            ours="accuracy lost against the dense all-reduce at equal samples",
            figure="points",
            unit="points",
            most=2.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Clipping gradients at 2.5 σ improves convergence, as it bounds the variance.",
            ours="held-out loss without clipping over that with it",
            figure="clipping",
            unit="ratio",
            least=1.02,
        ),
        Claim(
            paper="2 bits are sent for each 32.",
            ours="bytes of a dense gradient over those of its packet, headers included, between 2 workers",
            figure="ratio",
            beside=AT_16,
            unit="ratio",
            least=15.0,
            efficiency=Efficiency.EXACT,
        ),
    ),
)
