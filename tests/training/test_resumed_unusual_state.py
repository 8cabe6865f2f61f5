"""State of the user's own in unusual places: a resumed run ends with the same bits, or is refused, which the first checkpoint says."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
import weakref
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from timeit import default_timer as timer
from typing import Any

import numpy as np
import pytest
import test_resumed_own_state as usual
import torch
from test_resumed_own_state import Average, Program, Steps, epochs, go, resumed_alike
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.errors import CheckpointError, RecordWarning, WorkloadError


class Means(list[float]):
    """Of batches, under a label."""

    label = 1


class Counting(nn.Module):
    """Divides by how often it was called, and keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self._calls = nn.Linear(6, 1), 0
        self.means: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        self._calls += 1
        self.means.append(float(x.mean()))
        return self.linear(x) / self._calls + sum(self.means)


class Settings:
    """Gives its values as attributes, and complains of others in its own way."""

    def __init__(self, **values: float) -> None:
        self.values = values

    def __getattr__(self, name: str) -> float:
        return self.__dict__["values"][name]


def by_a_bound_method(worker: pr.Worker) -> None:
    steps = Steps(worker)
    average = Average(steps.model)
    update, weight = average.update, partial(lambda held: held["weight"].sum(), average.shadow)
    del average
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, weight())
            update()


def counter() -> Callable[[], int]:
    n = 0

    def tick() -> int:
        nonlocal n
        n += 1
        return n

    return tick


def by_a_function_that_was_made(worker: pr.Worker) -> None:
    steps, tick = Steps(worker), counter()
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, tick())


def in_a_list_of_ones_own(worker: pr.Worker) -> None:
    steps, means = Steps(worker), Means()
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, len(means) + means.label)
            means.append(float(x.mean()))
            means.label = 2


def in_the_model(worker: pr.Worker) -> None:
    model = Counting()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    worker.attach(model, optimizer)
    for _, batches in epochs(worker):
        for (x,) in batches:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()


def with_a_long_list(worker: pr.Worker) -> None:
    steps, state = Steps(worker), {"table": [0.5] * 20_001, "mean": torch.zeros(6)}
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, state["mean"].sum() + state["table"][0])
            state["mean"] += x.mean(0)
            state["table"][0] += 1.0


def thawed_in_the_second_epoch(worker: pr.Worker) -> None:
    steps = Steps(worker)
    steps.model.bias.requires_grad_(False)
    for epoch, batches in epochs(worker):
        if epoch == 1:
            steps.model.bias.requires_grad_(True)
        for (x,) in batches:
            steps.take(x)


def with_what_cannot_be_compared(worker: pr.Worker) -> None:
    steps, settings, gone = Steps(worker), Settings(rate=0.5), weakref.proxy(Steps)
    there = Average(steps.model)
    lost = weakref.proxy(there)
    del there
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    settings.__dict__[3] = "no name"  # type: ignore[index]
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, settings.rate)
    worker.report(sum=float(ragged.values().sum()), there=float(gone is not None) + float(lost is not None))


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any) -> Any:
        begin = timer()
        found = function(*args)
        args[0].report(took=0.0 * (timer() - begin))
        return found

    wrapper.__qualname__ = "timed.wrapper"
    return wrapper


@timed
def _epoch(worker: pr.Worker, steps: Steps, batches: Any) -> None:
    last = timer()
    for (x,) in batches:
        steps.take(x)
        worker.report(passed=0.0 * (timer() - last))
        last = timer()


@timed
def with_two_decorated_functions(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _, batches in epochs(worker):
        _epoch(worker, steps, batches)


def within_autocast(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _, batches in epochs(worker):
        for (x,) in batches:
            with torch.autocast("cpu", enabled=False), torch.no_grad():
                target = steps.model(x).mean()
                mode = "up" if target > 0 else "down"
            steps.take(x, 1.0 if mode == "up" else 2.0)


def with_a_name_that_the_module_has(worker: pr.Worker) -> None:
    steps = Steps(worker)
    for _, batches in epochs(worker):
        for (x,) in batches:
            seen = worker.clock
            seen += 1
            steps.take(x, seen % 2)


seen = 7

RESTORED: list[Program] = [
    by_a_bound_method,
    by_a_function_that_was_made,
    in_a_list_of_ones_own,
    in_the_model,
    with_a_long_list,
    thawed_in_the_second_epoch,
    with_what_cannot_be_compared,
    with_two_decorated_functions,
    within_autocast,
    with_a_name_that_the_module_has,
]


def from_a_generator(worker: pr.Worker) -> None:
    def falling() -> Iterator[float]:
        scale = 1.0
        while True:
            yield scale
            scale *= 0.7

    steps, scales = Steps(worker), falling()
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, next(scales))


def from_a_cycle(worker: pr.Worker) -> None:
    steps, scales = Steps(worker), itertools.cycle([0.0, 1.0, 2.0, 3.0, 4.0])
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, next(scales))


def from_another_loader(worker: pr.Worker) -> None:
    steps, scales = Steps(worker), iter(torch.utils.data.DataLoader(torch.arange(40.0)))
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, next(scales))


def in_records(worker: pr.Worker) -> None:
    steps, held = Steps(worker), np.zeros(4, dtype=[("taken", "i8"), ("mean", "f8")])
    for _, batches in epochs(worker):
        for (x,) in batches:
            steps.take(x, float(held["mean"].sum()))
            held["mean"][worker.clock % 4] = float(x.mean())


def deep_down(worker: pr.Worker) -> None:
    steps, held = Steps(worker), [[[[[[[[0.0]]]]]]]]
    for _, batches in epochs(worker):
        for (x,) in batches:
            inner: Any = held
            while isinstance(inner[0], list):
                inner = inner[0]
            steps.take(x, inner[0])
            held[0] = [[[[[[[inner[0] + float(x.mean())]]]]]]]


NOT_IN_CHECKPOINTS: list[tuple[Program, str]] = [
    (from_a_generator, "scales"),
    (from_a_cycle, "scales"),
    (from_another_loader, "scales"),
    (in_records, "held"),
    (deep_down, "held"),
]


@pytest.mark.parametrize("program", RESTORED, ids=lambda program: program.__name__)
def test_it_goes_on(program: Program, tmp_path: Path) -> None:
    resumed_alike(program, tmp_path, (6, 8))


@pytest.mark.parametrize(("program", "variable"), NOT_IN_CHECKPOINTS, ids=[program.__name__ for program, _ in NOT_IN_CHECKPOINTS])
def test_what_cannot_be_in_a_checkpoint_is_reported_with_the_first_and_refused(program: Program, variable: str, tmp_path: Path) -> None:
    with pytest.warns(RecordWarning, match=rf"variable {variable} of .* has changed since .* will be refused\. Give it"):
        go(program, checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
    with pytest.raises(CheckpointError, match=rf"variable {variable} of .* an(other| iterator).* worker.keep\({variable}="):
        go(program, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000006"))


def padded(program: Program) -> Program:
    """The same with long loops, whose jumps need prefixes."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(program)))
    for each in ast.walk(tree):
        if isinstance(each, (ast.For, ast.While)):
            each.body += ast.parse("\n".join(f"padding_{k} = worker.rank" for k in range(60))).body
    names: dict[str, Any] = dict(vars(inspect.getmodule(program)))
    exec(compile(ast.fix_missing_locations(tree), __file__, "exec"), names)
    made: Program = names[program.__name__]
    return made


LONG_LOOPS = [usual.with_the_best, usual.with_a_hidden_state, usual.averaged_in_a_dict_anew, usual.with_a_phase, usual.an_ordinary_script]


@pytest.mark.parametrize("program", LONG_LOOPS, ids=lambda program: program.__name__)
def test_loops_may_be_long(program: Program, tmp_path: Path) -> None:
    message = dict(usual.REFUSED).get(program)
    if message is None:
        resumed_alike(padded(program), tmp_path, (6,))
    else:
        go(padded(program), checkpoints=pr.Checkpoints(tmp_path, every=2, keep=100))
        with pytest.raises(CheckpointError, match=message):
            go(padded(program), checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000004"))


def test_a_variable_that_a_checkpoint_cannot_hold_is_refused_at_once() -> None:
    phase = Enum("phase", ["WARM", "COLD"])

    def train(worker: pr.Worker) -> None:
        worker.variables(phase=phase["WARM"])

    with pytest.raises(WorkloadError, match=r"worker.variables got phase contains <phase.WARM.*which a checkpoint cannot hold"):
        go(train)
