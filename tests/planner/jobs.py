"""A small JOB for plans: least squares on data that never change, by 40 weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

import polyrhythm as pr
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.core.records.progress import ignore
from polyrhythm.core.training.run import Attempt
from polyrhythm.hardware.fleet import fleet
from polyrhythm.hardware.network import Network
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.foretold import PacesTask
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.objective import Objective
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.run_notes import PAUSED, REAL
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.search import Search
from polyrhythm.tools.planner.space import Space
from polyrhythm.tools.pools.pools import Done, Pool

WIDTH = 40
NETWORK = Network.uniform("narrow", "1 Mbit/s", "5 ms")
SLOW = pr.Device("slow", 4e4)
"""A step of `least_squares` takes longer there than an exchange, so that several machines are faster than one."""


@cache
def data() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(512, WIDTH, generator=draw)
    return x, x @ torch.randn(WIDTH, 1, generator=draw)


def least_squares(worker: pr.Worker, epochs: int = 4, learning_rate: float = 0.05, batch_size: int = 8) -> None:
    """Train; the loss is that on all data."""
    x, y = data()
    torch.manual_seed(0)
    model: Any = torch.nn.Linear(WIDTH, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=learning_rate))
    worker.evaluate(lambda found: {"loss": (found(x) - y).square().mean().item()})
    for _ in range(epochs):
        for a, b in worker.batches((x, y), batch_size=batch_size):
            optimizer.zero_grad()
            (model(a) - b).square().mean().backward()
            optimizer.step()


def own_batches(worker: pr.Worker, max_iters: int = 128, lr: float = 0.05, batch_size: int = 8) -> None:
    """Train on samples that the JOB draws for itself and does not count."""
    x, y = data()
    model: Any = torch.nn.Linear(WIDTH, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr))
    worker.evaluate(lambda found: {"loss": (found(x) - y).square().mean().item()})
    for _ in range(max_iters):
        chosen = torch.randint(len(x), (batch_size,))
        optimizer.zero_grad()
        (model(x[chosen]) - y[chosen]).square().mean().backward()
        optimizer.step()


def sparse_rows(worker: pr.Worker, epochs: int = 4, lr: float = 0.5, batch_size: int = 8) -> None:
    """An embedding whose gradients are sparse."""
    draw = torch.Generator().manual_seed(1)
    places, weights = torch.randint(0, 50, (512, 3), generator=draw), torch.randn(50, generator=draw)
    y = weights[places].sum(1)
    model: Any = torch.nn.EmbeddingBag(50, 1, mode="sum", sparse=True)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr))
    worker.evaluate(lambda found: {"loss": (found(places).squeeze(1) - y).square().mean().item()})
    for _ in range(epochs):
        for a, b in worker.batches((places, y), batch_size=batch_size):
            optimizer.zero_grad()
            (model(a).squeeze(1) - b).square().mean().backward()
            optimizer.step()


class InTurn:
    """Pools that make one run after the other in this process, and a clock on which a run takes what its steps do, on every machine.

    They are interrupted after `stop` runs of all. The first two take `warming` seconds more: a machine that loads what all need. Steps of
    systems that are named in `slow` take so many times as long. `order` are the systems and steps of all runs that were made.
    """

    def __init__(self, stop: float = math.inf, warming: float = 0.0, slow: Mapping[str, float] | None = None) -> None:
        self.stop = stop
        self.warming = warming
        self.slow = slow or {}
        self.order: list[tuple[str, int]] = []
        self.seconds = 0.0

    @property
    def made(self) -> int:
        """How many runs."""
        return len(self.order)

    def budget(self, seconds: float) -> Budget:
        """On its clock; runs under way are not broken off by that of the day."""
        return Budget(seconds, lambda: self.seconds, lambda: math.inf)

    def __call__(self, done: Done) -> Pool:
        return _Pool(self, done)


class _Pool:
    def __init__(self, turns: InTurn, done: Done) -> None:
        self.turns = turns
        self.done = done

    def work(self, plans: Any) -> None:
        for place, task, directory in plans:
            if isinstance(task, PacesTask):
                self.turns.seconds += 0.003 * len(task.candidates)
                self.done(place, task.attempt(directory, ignore))
                continue
            candidate, pace = task.candidate, 3e-4 * self.turns.slow.get(task.candidate.system, 1.0)
            patient = getattr(task, "patience", math.inf) / (pace * candidate.workers)
            attempt = (task if patient > task.steps else replace(task, steps=max(1, int(patient)))).attempt(directory, ignore)
            if patient <= task.steps:
                attempt.outcome.settings[PAUSED] = str(int(patient))
            seconds = 0.04 + pace * _steps(attempt, task.steps) * candidate.workers + (self.turns.warming if self.turns.made < 2 else 0.0)
            attempt.outcome.settings[REAL] = str(seconds)
            self.turns.seconds += seconds
            self.turns.order.append((candidate.system, _steps(attempt, task.steps)))
            self.done(place, attempt)
            if self.turns.made >= self.turns.stop:
                raise KeyboardInterrupt


def _steps(attempt: Attempt, wanted: int) -> int:
    """Those that each worker took: a run may end before the last that was wanted."""
    return max((event.clock for event in attempt.outcome.events if isinstance(event, Stepped)), default=wanted)


def planner(found: Findings, seconds: float = 6.0, turns: InTurn | None = None) -> Planner:
    """One that decides alike on every machine."""
    turns = turns or InTurn()
    return Planner(found, turns, turns.budget(seconds))


def search(found: Findings, seconds: float = math.inf) -> Search:
    """Likewise."""
    turns = InTurn()
    return Search(found, turns, turns.budget(seconds))


def findings(
    systems: tuple[str, ...] = ("allreduce", "ssp", "sparknet"),
    workers: tuple[int, ...] = (2, 4),
    target: str = "loss=0.05",
    cache: MeasureCache | None = None,
    train: Callable[..., None] = least_squares,
    **rest: Any,
) -> Findings:
    """What a search begins with."""
    name = train.__name__
    scenario = Scenario(name, train, parse_target(target), NETWORK, fleet(SLOW), facts={"job": name})
    objective = rest.pop("objective", Objective())
    return Findings(scenario, objective, Space.of(scenario, systems, workers), cache or MeasureCache(None), **rest)
