"""A graph of tasks: what calls what with which results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """Call `function` with `arguments`: values, or the numbers of tasks in `needs` at their places."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    needs: tuple[int | None, ...]

    def run(self, results: dict[int, Any]) -> Any:
        """The result, where those that it needs are there."""
        return self.function(*(value if need is None else results[need] for value, need in zip(self.arguments, self.needs, strict=True)))


@dataclass(frozen=True, slots=True)
class FutureGraph:
    """Tasks in an order in which they could be run one after another; `result` is the number of that which is returned."""

    tasks: tuple[Task, ...]
    result: int

    def needs(self, number: int) -> set[int]:
        """The tasks whose results one needs."""
        return {need for need in self.tasks[number].needs if need is not None}

    def levels(self) -> list[list[int]]:
        """Tasks by the longest way to them: those of a level need only what is in levels before it."""
        depth: list[int] = []
        for number in range(len(self.tasks)):
            depth.append(1 + max((depth[need] for need in self.needs(number)), default=-1))
        return [[number for number, at in enumerate(depth) if at == level] for level in range(max(depth) + 1)]

    def longest(self, seconds: Sequence[float]) -> float:
        """The seconds of the longest way through the graph."""
        ends: list[float] = []
        for number in range(len(self.tasks)):
            ends.append(seconds[number] + max((ends[need] for need in self.needs(number)), default=0.0))
        return max(ends)
