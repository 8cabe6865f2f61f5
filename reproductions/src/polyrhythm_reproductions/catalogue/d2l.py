"""The all-reduce that a textbook writes from scratch: right, and bound by its root."""

from __future__ import annotations

import torch

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.hardware.network import Network
from polyrhythm.topology import Star
from polyrhythm_reproductions.jobs.differences import largest_difference
from polyrhythm_reproductions.jobs.questions import ask
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import Teacher
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction, Scaling
from polyrhythm_reproductions.trial import ArmTrial

_BATCH, _STEPS, _WORKERS, _NUMEL = 64, 32, 4, 100_000
_NETWORK = Network.uniform("10 Gbit/s, 50 us", "10 Gbit/s", "50 us")


def measure(trial: ArmTrial) -> Figures:
    """Weights after some steps, compared with those of one worker on whole batches; and the bytes through worker 0 and through another."""
    whole = trial.train("single", _job(1), "single", 1)
    parts = trial.train("d2l", _job(_WORKERS), "d2l", _WORKERS)
    root, other = [], []
    for workers in (2, 4, 8, 16, 32):
        through = ask(workers, _summed, _NETWORK).through
        root.append(through[0] / (2 * (workers - 1) * 4 * _NUMEL))
        other.append(max(through[1:]) / (2 * 4 * _NUMEL))
    return {
        "difference": largest_difference(whole.outcome.weights, parts.outcome.weights),
        "root": 100 * max(abs(each - 1) for each in root),
        "other": 100 * max(abs(each - 1) for each in other),
    }


def _job(workers: int) -> Teacher:
    return Teacher(SgdRecipe(0.03), epochs=1, batch_size=_BATCH // workers, samples=_BATCH * _STEPS)


async def _summed(port: Port, group: Group) -> list[torch.Tensor]:
    return [await Star().reduce(port, group, torch.zeros(_NUMEL), "sum")]


REPRODUCTION = Reproduction(
    name="d2l",
    systems=("d2l",),
    paper="Zhang, Lipton, Li, Smola: Dive into Deep Learning (2023), section 13.5",
    setting=(
        "32 steps of plain SGD on batches of 64 (teacher, 20,500 parameters), whole at one worker and in 4 parts. Sums of 100,000 numbers "
        "among 2 to 32 workers are counted on their own."
    ),
    baseline="single",
    scaling=Scaling.STRONG,
    measure=measure,
    claims=(
        Claim(
            paper="Splitting a batch over devices and adding up their gradients is the step of one device on the whole batch.",
            ours="largest difference of any weight from those of one worker",
            figure="difference",
            unit="difference",
            most=1e-6,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="All sums are made on device 0, whose traffic grows with their number: 2 (P - 1) M.",
            ours="largest deviation of the bytes through worker 0 from the formula",
            figure="root",
            unit="%",
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="The other devices send a gradient and get a sum, whatever their number: 2 M.",
            ours="largest deviation of the bytes through another worker from the formula",
            figure="other",
            unit="%",
            most=1.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
    ),
)
