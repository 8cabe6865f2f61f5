"""Least squares with a penalty on the absolute values of many correlated coefficients: blocks of them are updated at the same time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.core.tables.table import Table
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads.block_schedules import BlockSchedule, Strads, balanced
from polyrhythm.workloads.workload import Metric, Sizes, require_positive

TEST_SAMPLES = 200
_NOISE = 0.1


class Problem(NamedTuple):
    """Inputs (n, features) whose columns have unit length over the training samples, targets (n,), and the same to test on."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor


@dataclass(frozen=True, slots=True)
class Lasso:
    """½ ‖y - Xβ‖² + `penalty` ‖β‖₁ by coordinate descent: `parallel` coefficients a round, dealt to the workers, for `rounds` rounds.

    Features come in groups of `group` with a correlation of `correlation` within each; one coefficient of every other group is not zero.
    Coefficients are chosen by `Strads(parallel, theta, epsilon)` at worker 0 (schedule), workers compute and add their changes (push), and
    take over those of the others (pull). Those of the last `flight` rounds are in flight: give the slack of the system, of `ssp` 3.
    """

    samples: int = 400
    features: int = 1000
    group: int = 20
    correlation: float = 0.9
    penalty: float = 0.05
    rounds: int = 200
    parallel: int = 8
    flight: int = 3
    theta: float = 0.5
    epsilon: float = 1e-3

    name: ClassVar[str] = "lasso"
    description: ClassVar[str] = "1,000 correlated coefficients by parallel coordinate descent, on a table and with STRADS; no gradients"
    metric: ClassVar[Metric] = Metric("loss", higher_is_better=False)

    def __post_init__(self) -> None:
        require_positive(
            self.name,
            samples=self.samples,
            features=self.features,
            group=self.group,
            penalty=self.penalty,
            rounds=self.rounds,
            parallel=self.parallel,
            theta=self.theta,
            epsilon=self.epsilon,
        )
        if not 0 <= self.correlation < 1:
            raise WorkloadError(f"{self.name} was given correlation={self.correlation}: it must be at least 0 and below 1.")
        if self.flight < 0:
            raise WorkloadError(f"{self.name} was given flight={self.flight}: it counts rounds, so give 0 or more.")

    @property
    def sizes(self) -> Sizes:
        """Every coefficient is computed on all samples."""
        return Sizes(self.samples, TEST_SAMPLES, self.samples, "generated from a seed")

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        descend(worker, self, Strads(self.parallel, self.theta, self.epsilon))


def descend(worker: WorkloadWorker, settings: Lasso, schedule: BlockSchedule) -> None:
    """Rounds of coordinate descent, the coefficients of each chosen by `schedule`."""
    problem = generated(settings, worker.seed)
    beta = worker.table("beta", rows=settings.features)
    worker.evaluate(lambda beta: measured(problem, beta[:, 0], settings.penalty))
    descent = Descent(problem, beta, settings, schedule, rng.stream(worker.seed, "lasso", "schedule"))

    for _ in range(settings.rounds):
        shares = worker.broadcast(descent.schedule(worker.workers) if worker.rank == 0 else None)
        descent.push(torch.tensor(shares[worker.rank], dtype=torch.int64))
        worker.count(settings.samples)
        beta.clock()
        descent.pull(torch.tensor([each for share in shares for each in share], dtype=torch.int64))


class Descent:
    """One worker's view: the coefficients as last read, the residual of y, and the last change of each coefficient."""

    def __init__(self, problem: Problem, beta: Table, settings: Lasso, schedule: BlockSchedule, draw: np.random.Generator) -> None:
        self.x, self.table, self.penalty, self.rule, self.draw = problem.x, beta, settings.penalty, schedule, draw
        self.flying: deque[Tensor] = deque(maxlen=settings.flight)
        self.nothing = torch.empty(0, dtype=torch.int64)
        self.beta = beta.get()[:, 0]
        self.residual = problem.y - self.x @ self.beta
        self.costs = (self.x != 0).sum(dim=0).float()
        self.changes = torch.full_like(self.beta, torch.inf)

    def schedule(self, workers: int) -> list[list[int]]:
        """The coefficients of each worker, with costs as equal as possible."""
        flying = torch.cat([self.nothing, *self.flying])
        blocks = self.rule.blocks(self.changes, flying, self.similarity, self.draw)
        self.flying.append(blocks)
        return [share.tolist() for share in balanced(blocks, self.costs[blocks], workers)]

    def similarity(self, among: Tensor) -> Tensor:
        """|x_jᵀ x_k| of these coefficients."""
        return (self.x[:, among].T @ self.x[:, among]).abs()

    def push(self, share: Tensor) -> None:
        """Add to each coefficient of `share` what minimises the objective, if no other coefficient changes."""
        best = torch.nn.functional.softshrink(self.beta[share] + self.x[:, share].T @ self.residual, self.penalty)
        self.table.inc(share, (best - self.beta[share]).view(-1, 1))

    def pull(self, scheduled: Tensor) -> None:
        """Read the changes of all workers, and update the residual."""
        fresh = self.table.get()[:, 0]
        self.changes[scheduled] = 0.0
        moved = (fresh != self.beta).nonzero().view(-1)
        change = fresh[moved] - self.beta[moved]
        self.changes[moved] = change.abs()
        self.residual = self.residual - self.x[:, moved] @ change
        self.beta = fresh


def generated(settings: Lasso, seed: int) -> Problem:
    """The problem of a seed: samples to train and to test on."""
    draw = rng.stream(seed, "lasso", "data")
    count, groups = settings.samples + TEST_SAMPLES, -(-settings.features // settings.group)
    common = np.repeat(draw.standard_normal((count, groups)), settings.group, axis=1)[:, : settings.features]
    own = draw.standard_normal((count, settings.features))
    x = np.sqrt(settings.correlation) * common + np.sqrt(1 - settings.correlation) * own
    x /= np.linalg.norm(x[: settings.samples], axis=0)
    beta = np.zeros(settings.features)
    beta[:: 2 * settings.group] = draw.choice((-1.0, 1.0), len(beta[:: 2 * settings.group]))
    y = x @ beta + _NOISE / np.sqrt(settings.samples) * draw.standard_normal(count)
    training, test = slice(settings.samples), slice(settings.samples, None)
    return Problem(*(torch.from_numpy(part).float() for part in (x[training], y[training], x[test], y[test])))


def measured(problem: Problem, beta: Tensor, penalty: float) -> dict[str, float]:
    """The mean squared error on held-out samples, where 1 is that of all coefficients zero, and the objective."""
    error = (problem.test_y - problem.test_x @ beta).square().mean() / problem.test_y.square().mean()
    objective = 0.5 * (problem.y - problem.x @ beta).square().sum() + penalty * beta.abs().sum()
    return {"loss": error.item(), "objective": objective.item()}
