"""Collectives with keys: workers may launch them in any order."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import DeadlockError
from polyrhythm.topology import Ring
from polyrhythm_reproductions.jobs.negotiation import NETWORK
from polyrhythm_reproductions.jobs.questions import ask
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_WORKERS, _TENSORS, _TRIALS = 4, 3, 1000
_PART = 8
"""Numbers in each tensor."""


def measure(trial: ArmTrial) -> Figures:
    """Steps in which all have gradients in an order of their own: those whose means were wrong, with keys and without."""
    wrong: list[int] = []

    def train(worker: Worker) -> None:
        wrong.extend(_shuffled_steps(worker, trial.seed))

    on = Simulator(network=NETWORK, seed=trial.seed)
    try:
        run(train, workers=_WORKERS, strategy="collective-allreduce", on=on, seed=trial.seed)
    except DeadlockError:
        wrong.extend(range(_TRIALS))
    return {"failed": len(set(wrong)), "without keys": 100 * _wrong_without_keys(trial.seed, trial.size(_TRIALS, 100))}


def _shuffled_steps(worker: Worker, seed: int) -> list[int]:
    """The steps after which a tensor did not have the mean of the workers' gradients; all numbers are whole and exact."""
    model, draw, wrong = _ShuffledSums(), np.random.default_rng((seed, worker.rank)), []
    attached, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
    expected = [0.0] * _TENSORS
    for step in range(_TRIALS):
        worker.count(1)
        optimizer.zero_grad()
        scales = [1.0 + number + step % 7 for number in range(_TENSORS)]
        attached(draw.permutation(_TENSORS).tolist(), [scale + worker.rank for scale in scales]).backward()
        optimizer.step()
        expected = [value - scale - (_WORKERS - 1) / 2 for value, scale in zip(expected, scales, strict=True)]
        if any((part != value).any() for part, value in zip(model.parts, expected, strict=True)):
            wrong.append(step)
    return wrong


class _ShuffledSums(nn.Module):
    """Sums of its tensors, each times its own scale, in an order that is given: backward() goes through it in reverse."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.zeros(_PART) for _ in range(_TENSORS))

    def forward(self, order: list[int], scales: list[float]) -> Tensor:
        total = torch.zeros(())
        for number in order:
            total = total + scales[number] * self.parts[number].sum()
        return total


def _wrong_without_keys(seed: int, trials: int) -> float:
    """The part of `trials` in which some worker has a wrong sum where rings are distinguished by the order of their launch alone."""

    async def live(port: Port, group: Group) -> list[Tensor]:
        draw, found = np.random.default_rng((seed, group.rank)), []
        for trial in range(trials):
            order = draw.permutation(_TENSORS).tolist()
            sums = [await Ring().reduce(port, group, torch.full((_PART,), float(k)), f"{trial}/{turn}") for turn, k in enumerate(order)]
            found.append(all(bool((total == _WORKERS * k).all()) for total, k in zip(sums, order, strict=True)))
        return [torch.tensor(found)]

    right = torch.stack([answer[0] for answer in ask(_WORKERS, live, NETWORK, seed).tensors]).all(dim=0)
    return float((~right).double().mean())


REPRODUCTION = Reproduction(
    name="collective-allreduce",
    systems=("collective-allreduce",),
    paper="CollectiveAllReduceStrategy of TensorFlow 1.11 (2018); Abadi et al.: TensorFlow (OSDI 2016)",
    setting="4 virtual workers and 3 tensors, whose gradients each worker computes in an order of its own in each of 1,000 steps.",
    measure=measure,
    claims=(
        Claim(
            paper="Collectives that carry a group key and an instance key may be launched in different orders.",
            ours="of 1,000 steps, those that deadlocked or ended with a wrong mean",
            figure="failed",
            unit="trials",
            most=0.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
        Claim(
            paper="Without such keys workers must launch them in one order.",
            ours="steps with a wrong sum where the order of launches tells rings apart",
            figure="without keys",
            unit="%",
            least=50.0,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
    ),
)
