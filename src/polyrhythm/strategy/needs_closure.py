"""Whether an optimizer's step() calls its closure: what its signature and its code say, for it need not have been called."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

import torch


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether step() cannot be called without a closure, which it may evaluate any number of times.

    Its parameter has no default, or its code calls it, or asserts that it is there, without having looked whether it is. Where there is no
    code to read, it is taken not to.
    """
    closure = _closure_of(optimizer)
    if closure is None:
        return False
    if closure.default is inspect.Parameter.empty:
        return True
    if type(optimizer).__module__.startswith("torch.optim"):  # all others of these can do without
        return False
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(type(optimizer).step)))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return False
    return any(_insists(node, closure.name) for node in _unguarded(tree, closure.name))


def _closure_of(optimizer: torch.optim.Optimizer) -> inspect.Parameter | None:
    parameters = inspect.signature(optimizer.step).parameters
    return parameters.get("closure")


def _unguarded(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """What is done whether there is a closure or not, and the conditions that ask for one."""
    yield node
    if isinstance(node, (ast.If, ast.IfExp, ast.BoolOp)) and _mentions(node if isinstance(node, ast.BoolOp) else node.test, name):
        return
    for child in ast.iter_child_nodes(node):
        yield from _unguarded(child, name)


def _insists(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Assert():
            return _mentions(node.test, name)
        case ast.If():
            return _mentions(node.test, name) and isinstance(node.body[-1], ast.Raise)
        case ast.Call():
            return isinstance(node.func, ast.Name) and node.func.id == name
        case _:
            return False


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
