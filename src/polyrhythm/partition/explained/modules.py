"""Which module of a model runs, so that an error in it can name it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from polyrhythm.errors import CompositionError


@contextmanager
def named_in_errors(model: nn.Module) -> Iterator[None]:
    """A context in which an error of torch in a module's forward pass becomes a CompositionError that names the module."""
    running: list[str] = []

    def entered(name: str) -> Any:
        return lambda module, given: running.append(name)

    def left(module: nn.Module, given: Any, found: Any) -> None:
        running.pop()

    hooks = []
    for name, module in model.named_modules():
        hooks += [module.register_forward_pre_hook(entered(name)), module.register_forward_hook(left)]
    try:
        yield
    except (RuntimeError, IndexError, TypeError, ValueError) as problem:
        where = next((name for name in reversed(running) if name), "The model")
        raise CompositionError(
            f"{where} does not fit what comes to it with this cut: {_first_line(problem)}. Divide the modules around it so that it gets "
            "what it expects, or leave them whole."
        ) from problem
    finally:
        for each in hooks:
            each.remove()


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0].rstrip(".") or type(problem).__name__
