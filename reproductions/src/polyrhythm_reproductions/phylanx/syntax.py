"""From a function's syntax to a graph: calls become tasks; loops and indices are done while the graph is made."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.phylanx.graph import FutureGraph, Task


@dataclass(frozen=True, slots=True)
class _Future:
    """The result of a task that has not run."""

    number: int


def futurise(function: Callable[..., Any], primitives: dict[str, Callable[..., Any]], *arguments: Any) -> FutureGraph:
    """The graph of `function` called with `arguments`: calls of `primitives`, by their names in it, become tasks.

    Assignments to names and to elements, `for` over values that are known, tuples and a last `return` of a task's result are understood.
    Raises CompositionError, with the line, for other syntax.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    names = dict(zip((each.arg for each in definition.args.args), arguments, strict=True))
    reading = _Reading(primitives, names)
    reading.statements(definition.body)
    if not isinstance(reading.returned, _Future):
        raise CompositionError(f"{function.__name__} returns no result of a task: return that of a primitive.")
    return FutureGraph(tuple(reading.tasks), reading.returned.number)


@dataclass
class _Reading:
    primitives: dict[str, Callable[..., Any]]
    names: dict[str, Any]
    tasks: list[Task] = field(default_factory=list)
    returned: Any = None

    def statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.Assign(targets=[target], value=value):
                    self.assign(target, self.value(value))
                case ast.For(target=target, iter=over, body=inside):
                    for each in self.value(over):
                        self.assign(target, each)
                        self.statements(inside)
                case ast.Return(value=ast.expr() as value):
                    self.returned = self.value(value)
                case ast.Expr(value=ast.Constant()):
                    pass  # a docstring
                case _:
                    raise self.refused(statement)

    def assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Tuple(elts=parts):
                for part, each in zip(parts, value, strict=True):
                    self.assign(part, each)
            case ast.Subscript(value=whole, slice=place):
                self.value(whole)[self.value(place)] = value
            case _:
                raise self.refused(target)

    def value(self, expression: ast.expr) -> Any:
        """What is known, or the future of a task."""
        match expression:
            case ast.Call(func=ast.Name(id=name), args=given) if name in self.primitives:
                return self.task(self.primitives[name], [self.value(each) for each in given])
            case ast.Call(func=ast.Name(id="range"), args=given):
                return range(*(self.value(each) for each in given))
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=parts):
                return tuple(self.value(each) for each in parts)
            case ast.Subscript(value=whole, slice=place):
                return self.value(whole)[self.value(place)]
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _ARITHMETIC:
                return _ARITHMETIC[type(operation)](self.value(left), self.value(right))
        raise self.refused(expression)

    def task(self, function: Callable[..., Any], given: list[Any]) -> _Future:
        needs = tuple(each.number if isinstance(each, _Future) else None for each in given)
        self.tasks.append(Task(function, tuple(given), needs))
        return _Future(len(self.tasks) - 1)

    @staticmethod
    def refused(node: ast.stmt | ast.expr) -> CompositionError:
        return CompositionError(f"Line {node.lineno}, {ast.unparse(node)!r}, becomes no task: write it with calls of primitives.")


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mod: lambda a, b: a % b,
    ast.Mult: lambda a, b: a * b,
}
