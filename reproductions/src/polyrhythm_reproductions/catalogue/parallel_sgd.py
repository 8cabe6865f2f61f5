"""Parallel SGD: what a step costs over a tree."""

from __future__ import annotations

import numpy as np

from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm_reproductions.jobs.sized import Vectors
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.step_cost import StepCost, step_cost, timed
from polyrhythm_reproductions.trial import ArmTrial

_SMALL, _LARGE = 10_000, 90_000
"""Numbers in a model."""
_ON = Simulator(network=Network.uniform("10 Gbit/s, 50 us", "10 Gbit/s", "50 us"), devices=Profile("no computing", (1e-9,)))


def measure(trial: ArmTrial) -> Figures:
    """A step's messages, the bytes by which it grows with the model, and its seconds, for powers of two of workers."""
    workers = [2**k for k in range(1, trial.size(8, 7))]
    small, large = ([_step(numel, count) for count in workers] for numel in (_SMALL, _LARGE))
    payload = 4 * (_LARGE - _SMALL)
    grown = [b.nbytes - a.nbytes - 2 * (count - 1) * payload for a, b, count in zip(small, large, workers, strict=True)]
    return {
        "messages": max(abs(step.messages - 2 * (count - 1)) for step, count in zip(large, workers, strict=True)),
        "bytes": max(map(abs, grown)),
        "logarithm": float(np.corrcoef(np.log2(workers), [step.seconds for step in large])[0, 1] ** 2),
    }


def _step(numel: int, workers: int) -> StepCost:
    return step_cost(timed(Vectors((numel,)), "parallel-sgd", workers, _ON))


REPRODUCTION = Reproduction(
    name="parallel-sgd",
    systems=("parallel-sgd",),
    paper="Hegde, Usmani: Parallel and Distributed Deep Learning (Stanford CME 323, 2016)",
    setting=(
        "Steps of a model of 10,000 and of one of 90,000 numbers on 2 to 64 workers (128 in the full run), in virtual time on 10 Gbit/s "
        "and 50 µs, without computing. The bytes of headers are left out: they are alike for both models."
    ),
    measure=measure,
    notes="Steps are timed without arithmetic; no model is trained. Consensus ADMM, of the same report, has a page of its own.",
    claims=(
        Claim(
            paper="A step reduces the gradients over a tree and sends the sum back: 2 (P - 1) messages in all.",
            ours="largest deviation of a step's messages from the formula",
            figure="messages",
            unit="messages/step",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Each of these messages is a whole model M: 2 (P - 1) M.",
            ours="largest deviation of a step's bytes from the formula",
            figure="bytes",
            unit="bytes/step",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Communication takes O(M log P).",
            ours="squared correlation of a step's virtual seconds with log2 P",
            figure="logarithm",
            unit="correlation",
            least=0.99,
            efficiency=Efficiency.SYSTEM,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="A GPU trains a convolutional network faster than a CPU, the more so the larger the batch.",
            untestable="Verdicts are made on machines without a GPU, and virtual devices assume what would have to be measured.",
        ),
    ),
)
