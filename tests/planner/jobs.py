"""A small JOB for plans: least squares on data that never change, by 40 weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

import polyrhythm as pr
from polyrhythm.hardware.fleet import fleet
from polyrhythm.hardware.network import Network
from polyrhythm.parallel.pools import Done, Pool
from polyrhythm.planner.findings import Findings
from polyrhythm.planner.measure_cache import MeasureCache
from polyrhythm.planner.objective import Objective
from polyrhythm.planner.scenario import Scenario
from polyrhythm.planner.space import Space
from polyrhythm.report.metrics import parse_target
from polyrhythm.report.progress import ignore

WIDTH = 40
NETWORK = Network.uniform("narrow", "1 Mbit/s", "5 ms")


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


class InTurn:
    """A pool that makes one run after the other in this process."""

    def __init__(self, done: Done) -> None:
        self.done = done

    def work(self, plans: Any) -> None:
        for place, task, directory in plans:
            self.done(place, task.attempt(directory, ignore))


def in_turn(done: Done) -> Pool:
    return InTurn(done)


def stopping(after: int) -> Callable[[Done], Pool]:
    """Pools that are interrupted after so many runs of all."""
    made = []

    def pool(done: Done) -> Pool:
        def ended(place: int, attempt: Any) -> None:
            done(place, attempt)
            made.append(place)
            if len(made) >= after:
                raise KeyboardInterrupt

        return InTurn(ended)

    return pool


def findings(
    systems: tuple[str, ...] = ("allreduce", "ssp", "sparknet"),
    workers: tuple[int, ...] = (2, 4),
    target: str = "loss=0.05",
    cache: MeasureCache | None = None,
    **rest: Any,
) -> Findings:
    """What a search begins with."""
    scenario = Scenario("least_squares", least_squares, parse_target(target), NETWORK, fleet("cpu-core"), facts={"job": "least_squares"})
    objective = rest.pop("objective", Objective())
    return Findings(scenario, objective, Space.of(scenario, systems, workers), cache or MeasureCache(None), **rest)
