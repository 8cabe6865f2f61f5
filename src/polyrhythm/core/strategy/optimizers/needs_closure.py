"""The use of a closure by an optimizer's step(), read from its signature and its code, without calling it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from polyrhythm.core.strategy.optimizers.closure_code import Reading

_DEPTH = 4
"""The depth of calls to which the code is read."""


@dataclass(frozen=True, slots=True)
class ClosureUse:
    """The use of a closure by step(): `required` are its parameters without a default; with a closure among them it needs one.

    It `needs` one also if its code calls it, or asserts it, without a check that it was given. It evaluates it `often` if it calls it in a
    loop or more than once. Where there is no code to read, both are taken to be false.
    """

    required: Sequence[str]
    needs: bool
    often: bool


def closure_use(optimizer: torch.optim.Optimizer) -> ClosureUse:
    """The use of a closure by the step() of the optimizer's class."""
    kind = type(optimizer)
    parameters = step_parameters(optimizer)
    required = [each.name for each in parameters if each.default is each.empty and each.kind not in _MANY]
    if kind.__module__.startswith("torch.optim"):  # those that need one require it
        return ClosureUse(required, "closure" in required, "closure" in required)
    reading = _read(kind, kind, "step", None, _DEPTH)
    return ClosureUse(required, "closure" in required or (reading is not None and reading.needs), reading is not None and reading.times > 1)


def step_parameters(optimizer: torch.optim.Optimizer) -> list[inspect.Parameter]:
    """The parameters of its class's step(), without the optimizer itself; none where they are not known."""
    return list(_parameters_of(type(optimizer).step))


@lru_cache(maxsize=64)
def _parameters_of(step: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Those of a class's step(), which thousands of virtual workers ask for."""
    try:
        return tuple(inspect.signature(step).parameters.values())[1:]
    except (TypeError, ValueError):
        return ()


_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _read(kind: type, after: type, method: str, place: int | str | None, depth: int) -> Reading | None:
    """The reading of the `method` of `kind`, of the first class from `after` on that has it; the closure is the argument at `place`."""
    order = kind.__mro__[kind.__mro__.index(after) :]
    owner = next((each for each in order if method in vars(each)), None)
    if owner is None or depth == 0:
        return None
    if owner.__module__.startswith("torch.optim"):
        return Reading(False, 1)
    function = _source(vars(owner)[method])
    if function is None:
        return None

    def follow(name: str, inherited: bool, given: int | str) -> Reading | None:
        behind = kind.__mro__[kind.__mro__.index(owner) + 1] if inherited else kind
        return _read(kind, behind, name, given, depth - 1)

    return Reading.of(function, place, follow)


def _source(method: Callable[..., Any]) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(method))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return next((each for each in tree.body if isinstance(each, ast.FunctionDef)), None)
