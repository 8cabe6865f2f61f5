"""Sandblaster L-BFGS: the minimum of one process, backup tasks, and bytes beside Downpour's."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.simulator import Simulator
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.paces import Mixed
from polyrhythm.systems import find
from polyrhythm_reproductions.jobs.whole_digits import MinibatchDigits, WholeDigits, by_scipy
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial, Result

_WORKERS, _SLOW = 8, 4.0
_PORTION = Profile("a portion of 10 ms", (0.01,))
_EQUAL, _ONE_SLOW = Fleet((_PORTION,)), Fleet((_PORTION,), (Mixed((*[1.0] * (_WORKERS - 1), 1 / _SLOW)),))
_ONCE, _BACKUPS, _WHOLE, _DOWNPOUR = "dealt once", "backups", "sandblaster", "downpour"


def measure(trial: ArmTrial) -> Figures:
    """The distance to torch's and scipy's weights, the time that backups save, and bytes a sample beside Downpour's."""
    job = WholeDigits(steps=trial.size(4, 2))
    found = _train(trial, _WHOLE, job, _EQUAL)
    few = WholeDigits(steps=1, iterations=6)
    once = _train(trial, _ONCE, WholeDigits(few.steps, few.iterations, copies=1), _ONE_SLOW)
    backups = _train(trial, _BACKUPS, few, _ONE_SLOW)
    downpour = trial.train(_DOWNPOUR, MinibatchDigits(), find("downpour", servers=2), _WORKERS, _on(trial, _EQUAL))
    weights, minimum = found.outcome.weights, torch.from_numpy(by_scipy())
    return {
        "torch": max(_furthest(weights[name], each) for name, each in job.alone(trial.seed).items()),
        "scipy": _furthest(torch.cat([weights["weight"].flatten(), weights["bias"]]), minimum) if not trial.quick else 0.0,
        "saved": 100 * (1 - backups.seconds / once.seconds),
        "bytes": _per_sample(found) / _per_sample(downpour),
    }


def _train(trial: ArmTrial, arm: str, job: WholeDigits, devices: Fleet) -> Result:
    return trial.train(arm, job, find("sandblaster"), _WORKERS, _on(trial, devices))


def _on(trial: ArmTrial, devices: Fleet) -> Simulator:
    return Simulator(devices=devices, seed=trial.seed)


def _furthest(one: Tensor, other: Tensor) -> float:
    return float((one.detach() - other).abs().max())


def _per_sample(result: Result) -> float:
    return result.nbytes / result.arm.samples


REPRODUCTION = Reproduction(
    name="sandblaster",
    systems=("sandblaster",),
    paper="Dean et al.: Large Scale Distributed Deep Networks (NIPS 2012), section 4.2",
    setting=(
        "Softmax regression with a penalty on 1,437 digits (650 weights of float64), L-BFGS with a line search by the strong Wolfe "
        f"conditions, {_WORKERS} workers, 32 portions of 45 samples that take 10 ms each, 2 servers; for the backups one worker is "
        f"{_SLOW:g} times slower. Downpour trains the same in batches of 16."
    ),
    notes=(
        "Scaled down: the paper has models of 10^8 weights on thousands of cores. Here short messages are a large part of the bytes, which "
        "is in Sandblaster's disfavour. How much backups save depends on how portions come out even: with the same dealer and 16 to 128 "
        "portions between 0 and 37 %, so the number was settled beforehand, at 4 portions a worker. Downpour's rate was not tuned: only "
        "its bytes are compared."
    ),
    baseline=_ONCE,
    scaling=Scaling.WEAK,
    measure=measure,
    machines="one slow machine is what backups are about; its two arms are compared with each other alone",
    claims=(
        Claim(
            paper="The coordinator and the servers together carry out L-BFGS.",
            ours="largest difference of a weight from torch.optim.LBFGS's in one process",
            figure="torch",
            unit="difference",
            most=1e-6,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="They come to the minimum.",
            ours="largest difference of a weight from that of scipy's L-BFGS-B",
            figure="scipy",
            unit="difference",
            most=1e-6,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Portions that are scheduled a second time near the end keep slow machines from holding a batch up.",
            ours="virtual time that backups save with one slow machine",
            figure="saved",
            unit="%",
            least=25.0,
            efficiency=Efficiency.SYSTEM,
        ),
        Claim(
            paper="Sandblaster's bandwidth is far below Downpour's.",
            ours="bytes a sample over Downpour's",
            figure="bytes",
            unit="ratio",
            most=0.25,
        ),
    ),
)
