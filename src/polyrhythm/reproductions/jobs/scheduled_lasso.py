"""The bundled lasso with another schedule of its coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from polyrhythm.scheduling import Schedule
from polyrhythm.training.worker import Worker
from polyrhythm.workloads.lasso import Lasso, descend, generated
from polyrhythm.workloads.workload import Metric, Sizes


@dataclass(frozen=True, slots=True)
class ScheduledLasso:
    """`lasso`, of which `schedule` chooses the coefficients of a round in place of its own settings."""

    lasso: Lasso
    schedule: Schedule

    name: ClassVar[str] = Lasso.name
    description: ClassVar[str] = Lasso.description
    metric: ClassVar[Metric] = Lasso.metric

    @property
    def sizes(self) -> Sizes:
        """Those of the lasso."""
        return self.lasso.sizes

    def __call__(self, worker: Worker) -> None:
        """Train once, as one of the workers."""
        descend(worker, self.lasso, self.schedule)


def least_objective(settings: Lasso, seed: int, sweeps: int = 100) -> float:
    """What the problem's objective can come to, by so many sweeps over all coefficients, one after the other, in 64 bits."""
    x, y, _, _ = (part.double().numpy() for part in generated(settings, seed))
    beta, left = np.zeros(settings.features), y.copy()
    for _ in range(sweeps):
        for j in range(settings.features):
            wanted = beta[j] + x[:, j] @ left
            best = np.sign(wanted) * max(abs(wanted) - settings.penalty, 0.0)
            left += x[:, j] * (beta[j] - best)
            beta[j] = best
    return float(0.5 * left @ left + settings.penalty * np.abs(beta).sum())
