"""What computes groups: threads, or the thread of the run itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

import torch

from polyrhythm.core.simulator.gradients.calls import Computation

T = TypeVar("T")


class Executor(Protocol):
    """Computes what is submitted."""

    def submit(self, function: Callable[..., T], /, *args: Any) -> Computation[T]:
        """Compute `function(*args)`."""

    def shutdown(self) -> None:
        """End it."""


class Later(Generic[T]):
    """Computed when its result is asked for, outside of the programs, whose operations are counted."""

    __slots__ = ("_args", "_function", "_result")

    def __init__(self, function: Callable[..., T], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self._result: list[T] = []

    def result(self) -> T:
        if not self._result:
            self._result.append(self._function(*self._args))
        return self._result[0]


class InThisThread:
    """Computes in the thread that asks for a result."""

    def submit(self, function: Callable[..., T], /, *args: Any) -> Computation[T]:
        return Later(function, args)

    def shutdown(self) -> None:
        """There is nothing to end."""


def executor(threads: int) -> Executor:
    """Of so many threads, each with one thread of torch: so no result depends on their number."""
    if threads == 1:
        return InThisThread()
    return ThreadPoolExecutor(threads, "gradients", initializer=lambda: torch.set_num_threads(1))
