"""What each worker contributes under random schedules of crashes, leaves, joins and stalls: at most once, and not lost by who remains.

The gradient of a step is one at a place that belongs to the worker and the step, so that the final weights say what was applied.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from polyrhythm import Crew, Simulator, Worker
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import WorkerFailed
from polyrhythm.hardware.faults import Crash, Fault, Join, Leave, Stall
from polyrhythm.systems import resolve

STEPS, NAMES, WORKERS = 8, 60, 5
CREW = Crew(4, WORKERS)
EXACT = ["allreduce", "bigdl", "direct", "downpour", "firecaffe", "hogwild", "horovod", "mxnet", "poseidon", "ssp", "tree"]
"""Systems of sums or of servers, without a lossy codec, where the contribution of each worker and step is told apart from two of them."""


class Places(nn.Module):
    """A weight for each worker and step."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(NAMES * STEPS, dtype=torch.float64))

    def forward(self, gradient: Tensor) -> Tensor:
        return (self.weight * gradient).sum()


def contribute(scaled: bool) -> Callable[[Worker], None]:
    """The training function; with `scaled` a step's gradient is multiplied by the number of workers, which divide it."""

    def train(worker: Worker) -> None:
        model = Places()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        place = rank_of(worker._context.port.name) * STEPS
        for step in worker.range(STEPS):
            gradient = torch.zeros(NAMES * STEPS, dtype=torch.float64)
            gradient[place + step] = float(worker.workers) if scaled else 1.0
            worker.count(1)
            optimizer.zero_grad()
            model(gradient).backward()
            optimizer.step()

    return train


def applied(attempt: Attempt) -> Tensor:
    """How much of each contribution is in the final weights (names, steps)."""
    (weights,) = attempt.outcome.weights.values()
    return -weights.view(NAMES, STEPS)


@cache
def horizon(system: str) -> tuple[float, bool]:
    """The seconds of a run without faults, and whether its gradients are scaled so that each contribution is one in the end."""
    for scaled in (True, False):
        found = attempt(contribute(scaled), workers=WORKERS, strategy=resolve(system), on=Simulator())
        if applied(found)[:WORKERS].allclose(torch.ones(WORKERS, STEPS, dtype=torch.float64)):
            return found.outcome.summary.virtual_seconds, scaled
    raise AssertionError(f"{system} does not add contributions up")


def schedule(seed: int, seconds: float) -> tuple[Fault, ...]:
    draw, faults = random.Random(f"contributions {seed}"), list[Fault]()
    for _ in range(draw.randint(1, 5)):
        at, who = draw.uniform(0, seconds), f"worker/{draw.randrange(WORKERS)}"
        made = (Crash(who, at=at), Leave(who, at=at), Join(at=at), Stall(who, at=at, duration=draw.uniform(0.02, 0.3) * seconds))
        faults.append(draw.choices(made, (9, 4, 4, 3))[0])
    return tuple(faults)


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("system", EXACT)
def test_each_contribution_counts_once_whoever_comes_and_goes(system: str, seed: int) -> None:
    seconds, scaled = horizon(system)
    faults = schedule(seed, seconds)
    found = attempt(contribute(scaled), workers=CREW, strategy=resolve(system), on=Simulator(faults=faults))
    if found.error is not None:
        assert isinstance(found.error, WorkerFailed), f"{faults}: {found.error!r}"
        assert "workers are left" in str(found.error) or "the run was ending" in str(found.error), f"{faults}: {found.error!r}"
        return
    steps = defaultdict[str, list[int]](list)
    for event in found.outcome.events:
        if isinstance(event, Stepped):
            steps[event.actor].append(event.clock - 1)
    counted = applied(found)
    assert counted.max() < 1.9, f"{faults}: counted twice"  # of a step repeated by 3 in place of 5 workers there is 5 / 3
    for name, taken in steps.items():
        missing = [step for step in taken if counted[rank_of(name), step] < 0.15]
        lost = len(missing) if name in found.outcome.summary.lost else 0  # what it had sent last may have been under way
        assert missing == taken[len(taken) - lost :], f"{faults}: missing of {name}: {missing}"
