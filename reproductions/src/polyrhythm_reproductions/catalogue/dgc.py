"""Deep gradient compression: a thousandth of the gradient, with momentum corrected."""

from __future__ import annotations

from polyrhythm.codec import ErrorFeedback, PerTensor, TopKWarmup
from polyrhythm.core.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial
from polyrhythm_reproductions.volume import AT_16, beside

_WORKERS = 2
_RATIO = 0.001
_RATE, _MOMENTUM = 0.02, 0.9


def measure(trial: ArmTrial) -> Figures:
    """The loss at the same number of samples: dense with momentum, DGC, and a thousandth with error feedback under the same momentum."""
    samples, stage = trial.size((24_576, 96), (8192, 32))
    plain, heavy = (Teacher(SgdRecipe(_RATE, momentum), epochs=4, samples=samples) for momentum in (0.0, _MOMENTUM))
    dense = trial.train("allreduce", heavy, "allreduce", _WORKERS)
    corrected = trial.train("dgc", plain, find("dgc", ratio=_RATIO, momentum=_MOMENTUM, warmup=stage), _WORKERS)
    fed_back = trial.train("top-k with error feedback", heavy, _top_k(stage), _WORKERS)
    return {
        "loss": corrected.final / dense.final,
        "points": 100 * (dense.metric("accuracy") - corrected.metric("accuracy")),
        "correction": fed_back.final / corrected.final,
        **beside(Teacher(width=512), find("dgc", ratio=_RATIO, warmup=1), after=4),
    }


def _top_k(stage: int) -> Strategy:
    """Top-k: the same elements are left out in the same stages, and the optimizer has the momentum."""
    codec = ErrorFeedback(TopKWarmup((0.25, 0.0625, 0.015625, 0.004, _RATIO), stage))
    return Strategy(codec=PerTensor(codec, rest=codec), name="top-k with error feedback")


REPRODUCTION = Reproduction(
    name="dgc",
    systems=("dgc",),
    paper="Lin, Han, Mao, Wang, Dally: Deep Gradient Compression (ICLR 2018)",
    setting="teacher (20,490 parameters), 2 workers in batches of 16, momentum 0.9, a thousandth of each tensor after a warm-up "
    "in four stages "
    "(an eighth of the steps); the paper has image, speech and language models. Bytes are of a step after the warm-up, of the same "
    "network with 512 units (277,000 parameters), because the headers of messages are as long as a thousandth of the small one.",
    baseline="allreduce",
    measure=measure,
    notes="Bytes are those of one packet: packets are gathered by all, so that the traffic of P workers falls by 2 / P of this only, 57 "
    "times with 16 workers.",
    claims=(
        Claim(
            paper="Gradients are compressed 270 to 600 times.",
            ours="bytes of a dense gradient over those of the packet of a thousandth of it, indices and headers included, between 2 "
            "workers",
            figure="ratio",
            beside=AT_16,
            unit="ratio",
            least=270.0,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="No accuracy is lost.",
            ours="accuracy lost against the dense all-reduce with momentum at equal samples",
            figure="points",
            unit="points",
            most=1.0,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="No accuracy is lost.",
            ours="held-out loss over that of the dense all-reduce with momentum at equal samples",
            figure="loss",
            unit="ratio",
            most=1.05,
            kind=ClaimKind.NO_WORSE,
        ),
        Claim(
            paper="Momentum has to be corrected for what is sent late.",
            ours="held-out loss with error feedback and momentum in the optimizer, over that of DGC",
            figure="correction",
            unit="ratio",
            least=1.02,
        ),
    ),
)
