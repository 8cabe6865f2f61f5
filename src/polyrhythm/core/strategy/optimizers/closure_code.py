"""Reads from the code of a function whether it needs the closure that it may be given, and how often it evaluates one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Follow = Callable[[str, bool, "int | str"], "Reading | None"]
"""Returns the reading of a method of the same object, inherited or not, that gets the closure at this place; None if unknown."""

_LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_MANY = 2
"""The count that stands for any larger one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The use of a closure by a function: it `needs` one or not, and evaluates it so many `times`, 2 standing for any more."""

    needs: bool
    times: int

    @classmethod
    def of(cls, function: ast.FunctionDef, place: int | str | None, follow: Follow) -> Reading:
        """The reading of a method whose argument at `place` is the closure: by default the one with that name, else the first."""
        names = _Names.of(function, place)
        return cls(_Needs(names, follow).block(function.body), min(_Times(names, follow).block(function.body), _MANY))


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of the closure, `several` where it is an item of a tuple or a dict."""

    single: frozenset[str]
    several: frozenset[str]

    @classmethod
    def of(cls, function: ast.FunctionDef, place: int | str | None) -> _Names:
        positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][1:]
        named = [*positional, *(each.arg for each in function.args.kwonlyargs)]
        single: set[str] = set()
        if isinstance(place, str) and place in named:
            single = {place}
        elif isinstance(place, int) and place < len(positional):
            single = {positional[place]}
        elif place is None and named:
            single = {"closure" if "closure" in named else named[0]}
        several = {each.arg for each in (function.args.vararg, function.args.kwarg) if each is not None and not single}
        names = cls(frozenset(single), frozenset(several))
        while (more := names.with_others(function)) != names:
            names = more
        return names

    def with_others(self, function: ast.FunctionDef) -> _Names:
        """With the names that the function gives it later: of another variable, or of a function around it."""
        found = set(self.single)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and any(map(self.closure, _values(node.value))):
                        found.add(target.id)
                    elif isinstance(target, (ast.Tuple, ast.List)) and self.many(node.value):
                        found |= {each.id for each in target.elts if isinstance(each, ast.Name)}
            elif isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name) and any(map(self.closure, _values(node.value))):
                found.add(node.target.id)
            elif isinstance(node, ast.FunctionDef) and node is not function and self.called_in(node):
                found.add(node.name)
        return _Names(frozenset(found), self.several)

    def closure(self, node: ast.AST) -> bool:
        """True if the node is the closure, or something made of it, as by torch.enable_grad()(closure)."""
        match node:
            case ast.Name():
                return node.id in self.single
            case ast.Subscript():
                return self.many(node.value)
            case ast.Lambda():
                return self.called_in(node)
            case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop")):
                return self.many(value)
            case ast.Call(func=ast.Attribute(attr="step") | ast.Attribute(value=ast.Name(id="self"))):
                return False
            case ast.Call():
                return any(map(self.closure, node.args))
            case _:
                return False

    def many(self, node: ast.AST) -> bool:
        """True if the node is the tuple or dict that holds it."""
        return isinstance(node, ast.Name) and node.id in self.several

    def called_in(self, node: ast.AST) -> bool:
        """True if the closure is evaluated somewhere in the node."""
        return any(isinstance(each, ast.Call) and self.closure(each.func) for each in ast.walk(node))

    def mentioned(self, node: ast.AST) -> bool:
        """True if the node contains a name of the closure."""
        return any(isinstance(each, ast.Name) and (each.id in self.single or each.id in self.several) for each in ast.walk(node))

    def assigned(self, node: ast.AST) -> bool:
        """True if the node may assign another value to a name of the closure."""
        targets = (target for each in ast.walk(node) if isinstance(each, ast.Assign) for target in each.targets)
        return any(isinstance(target, ast.Name) and target.id in self.single for target in targets)


class _Needs:
    """Finds out if code fails without a closure: statement by statement, until the code checks that there is one."""

    def __init__(self, names: _Names, follow: Follow) -> None:
        self.names = names
        self.follow = follow

    def block(self, statements: Sequence[ast.stmt]) -> bool:
        """True if one of the statements fails without a closure, in order."""
        for statement in statements:
            if self.insists(statement):
                return True
            if isinstance(statement, ast.If) and self.names.mentioned(statement.test):
                branches = [statement.body, statement.orelse]
                if any(each and isinstance(each[-1], (ast.Return, ast.Raise)) for each in branches) or self.names.assigned(statement):
                    return False  # from here on there is a closure
            elif (
                isinstance(statement, ast.Assign)
                and isinstance(statement.value, (ast.BoolOp, ast.IfExp))
                and self.names.assigned(statement)
            ):
                return False
        return False

    def insists(self, node: ast.AST) -> bool:
        """True if the statement, or a part of it, fails without a closure."""
        match node:
            case ast.Assert():
                return self.names.mentioned(node.test) and not self.absent(node.test)
            case ast.If() if self.names.mentioned(node.test):
                return isinstance(node.body[-1], ast.Raise) and self.absent(node.test)
            case ast.IfExp() if self.names.mentioned(node.test):
                return False
            case ast.BoolOp() if self.names.mentioned(node):
                return False
            case ast.Try(handlers=[_, *_]) | ast.Lambda() | ast.FunctionDef():
                return False
            case ast.If() | ast.With() | ast.For() | ast.While():
                inside = [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]
                return any(map(self.insists, inside)) or self.block(node.body) or self.block(getattr(node, "orelse", []))
            case ast.Subscript(value=value, slice=key, ctx=ast.Load()) if self.names.many(value):
                return not isinstance(key, ast.Slice)
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value) if self.names.many(value):
                return True
            case ast.Call():
                return self.calls(node) or any(map(self.insists, ast.iter_child_nodes(node)))
            case _:
                return any(map(self.insists, ast.iter_child_nodes(node)))

    def calls(self, node: ast.Call) -> bool:
        """True if the call is one of the closure, or of a method that needs it."""
        if self.names.closure(node.func):
            return True
        return any(reading is not None and reading.needs for reading in followed(node, self.names, self.follow))

    def absent(self, test: ast.AST) -> bool:
        """True if the condition holds where there is no closure."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                return True
            case ast.Compare(ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None | 0)]) | ast.Compare(ops=[ast.Lt()]):
                return True
            case ast.Compare(ops=[ast.NotEq()], comparators=[ast.Constant(value=1)]):  # len(args)
                return True
            case ast.BoolOp():
                return any(self.absent(each) for each in test.values if self.names.mentioned(each))
            case _:
                return False


class _Times:
    """Counts how often code evaluates the closure, along its longest path."""

    def __init__(self, names: _Names, follow: Follow) -> None:
        self.names = names
        self.follow = follow

    def block(self, statements: Sequence[ast.AST]) -> int:
        """The count of one statement after another."""
        total = 0
        for place, statement in enumerate(statements):
            if isinstance(statement, ast.If):
                rest = statements[place + 1 :]
                ways = [each if each and isinstance(each[-1], (ast.Return, ast.Raise)) else [*each, *rest] for each in _branches(statement)]
                return total + self.of(statement.test) + max(map(self.block, ways))
            total += self.of(statement)
        return total

    def of(self, node: ast.AST) -> int:
        """The count of a single node."""
        match node:
            case ast.Lambda() | ast.FunctionDef():
                return 0
            case ast.IfExp():
                return self.of(node.test) + max(self.of(node.body), self.of(node.orelse))
            case ast.Call():
                own = 1 if self.names.closure(node.func) else sum(each.times for each in followed(node, self.names, self.follow) if each)
                return own + sum(map(self.of, ast.iter_child_nodes(node)))
            case _:
                inside = self.block(list(ast.iter_child_nodes(node)))
                return _MANY * inside if isinstance(node, _LOOPS) else inside


def followed(node: ast.Call, names: _Names, follow: Follow) -> Iterator[Reading | None]:
    """The reading of the method that gets the closure in this call; another optimizer's step evaluates it once."""
    if not isinstance(node.func, ast.Attribute):
        return
    match node.func.value:
        case ast.Name(id="self"):
            own, inherited = True, False
        case ast.Call(func=ast.Name(id="super")):
            own, inherited = True, True
        case _:
            own, inherited = False, False
    given: list[int | str] = [place for place, each in enumerate(node.args) if names.closure(each)]
    given += [each.arg for each in node.keywords if each.arg is not None and names.closure(each.value)]
    for place in given:
        if own:
            yield follow(node.func.attr, inherited, place)
        elif node.func.attr == "step":
            yield Reading(False, 1)
    passes_on = not given and any(isinstance(each, ast.Starred) and names.many(each.value) for each in node.args)
    if own and inherited and (passes_on or (not node.args and not node.keywords)):
        yield follow(node.func.attr, True, 0) if passes_on else _without(follow(node.func.attr, True, 0))


def _without(reading: Reading | None) -> Reading | None:
    """The reading of a method that gets no closure."""
    return None if reading is None else Reading(reading.needs, 0)


def _branches(node: ast.If) -> list[list[ast.stmt]]:
    return [node.body, node.orelse]


def _values(node: ast.AST) -> list[ast.AST]:
    """The nodes that may be the value of an expression."""
    match node:
        case ast.IfExp():
            return [node.body, node.orelse]
        case ast.BoolOp():
            return list(node.values)
        case _:
            return [node]
