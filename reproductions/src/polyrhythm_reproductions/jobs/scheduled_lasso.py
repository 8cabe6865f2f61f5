"""The bundled lasso with another schedule of its coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import numpy as np

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads.block_schedules import BlockSchedule
from polyrhythm.workloads.lasso import Lasso, descend, generated
from polyrhythm.workloads.workload import Metric, Sizes


@dataclass(frozen=True, slots=True)
class ScheduledLasso:
    """`lasso`, of which `schedule` chooses the coefficients of a round in place of the lasso's settings."""

    lasso: Lasso
    schedule: BlockSchedule

    name: ClassVar[str] = Lasso.name
    description: ClassVar[str] = Lasso.description
    metric: ClassVar[Metric] = Lasso.metric

    @property
    def sizes(self) -> Sizes:
        return self.lasso.sizes

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        descend(worker, self.lasso, self.schedule)


def least_objective(settings: Lasso, seed: int, sweeps: int = 100) -> float:
    """The least value of the problem's objective, by so many sweeps over all coefficients, one after the other, in 64 bits."""
    order = (j for _ in range(sweeps) for j in range(settings.features))
    *_, last = _one_by_one(settings, seed, order)
    return last


def updates_one_by_one(settings: Lasso, seed: int, target: float) -> int:
    """Updates of coefficients, drawn uniformly, one after the other, in 64 bits, until the objective is no more than `target`."""
    draw = rng.stream(seed, "lasso", "one by one")
    order = (int(draw.integers(settings.features)) for _ in count())
    return next(number for number, objective in enumerate(_one_by_one(settings, seed, order), 1) if objective <= target)


def _one_by_one(settings: Lasso, seed: int, order: Iterable[int]) -> Iterator[float]:
    """The objective after each update."""
    x, y, _, _ = (part.double().numpy() for part in generated(settings, seed))
    beta, left = np.zeros(settings.features), y.copy()
    for j in order:
        wanted = beta[j] + x[:, j] @ left
        best = np.sign(wanted) * max(abs(wanted) - settings.penalty, 0.0)
        left += x[:, j] * (beta[j] - best)
        beta[j] = best
        yield float(0.5 * left @ left + settings.penalty * np.abs(beta).sum())
