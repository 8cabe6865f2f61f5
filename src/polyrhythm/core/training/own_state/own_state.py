"""Content of the user's variables that have no state to export: changes by a step are noticed, and restored in a resumed run or refused."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any, NamedTuple

from torch import Tensor, nn

from polyrhythm.core.training.callers import is_ours, users
from polyrhythm.core.training.other_way import OtherWay, other_variable, refusal
from polyrhythm.core.training.own_state import carried
from polyrhythm.core.training.own_state.contents import ObjectTree
from polyrhythm.core.training.own_state.nodes import MOST_BYTES, Node, bounded, fingerprint, lasting, plain, same, shown
from polyrhythm.core.training.own_state.readings import attributes_set_anew, clock_attributes
from polyrhythm.core.training.own_state.renewal import renewed
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import RecordWarning

_SIMPLE = ("value", "number", "member")
_SHARED = ("list", "deque", "set", "dict", "values", "extended", "object", "modules", "callable", "tensor", "array", "tuple")


class Holder(NamedTuple):
    """A variable by the name that it has in checkpoints. `owner` is the object if it is an attribute; else it may be `set_here`, by a loop.

    It is `carried` if an iteration takes its value from the one before, and `lasting` if it is not of the iteration under way alone.
    """

    name: str
    value: Any
    carried: bool
    set_here: bool
    lasting: bool
    owner: Any = None
    attribute: str = ""


class OwnState:
    """Compares what variables hold, when a checkpoint is written, with what they held when the first loop began.

    `before` has their content in the checkpoint that is resumed. `skipped` is true for objects that are not compared: those of the worker,
    and those that have a state to export. Names in `accept` may differ. `newcomer` is the name of a worker that has joined others.
    """

    def __init__(
        self,
        before: dict[str, Node],
        mine: Callable[[], Collection[int]],
        skipped: Callable[[Any], bool],
        accept: Collection[str],
        newcomer: str = "",
    ) -> None:
        self.before = before
        self.mine = mine
        self.skipped = skipped
        self.accept = accept
        self.newcomer = newcomer
        self._reported: set[str] = set()
        self._began: set[str] = set()
        self._first: dict[str, bytes] = {}
        self._known: dict[int, weakref.ref[Tensor]] = {}

    def begin(self) -> None:
        """A loop begins: remember the content of the variables of functions in which no loop was started yet."""
        mine = self.mine()
        for frame in users():
            function = called(frame)
            if function not in self._began:
                self._began.add(function)
                for each in self._of(frame, carried.bound(frame)):
                    description = ObjectTree(mine)
                    node = description.of(each.value)
                    self._first[each.name] = fingerprint(node)
                    self._known |= description.tensors

    def look(self) -> dict[str, StateTree]:
        """The content of variables that have changed, for a checkpoint that is written now."""
        found: dict[str, StateTree] = {}
        room = MOST_BYTES
        for each, node in self._described():
            if self._first.get(each.name) != fingerprint(node):
                found[each.name], room = bounded(node, room)
                self._tell(each.name, node)
        return found

    def _tell(self, name: str, node: Node) -> None:
        """Warn once, for a variable, that a resumed run will be refused because of it."""
        lost = next(filter(None, map(_lost, _all(node))), None)
        if lost is not None and name not in self._reported and _variable(name) not in self.accept:
            self._reported.add(name)
            function, _, variable = name.rpartition(":")
            warnings.warn(
                f"The variable {variable} of {function} has changed since its loop began, and {lost}: a run that is resumed from this "
                f"checkpoint will be refused. {_remedy(variable)}",
                RecordWarning,
                stacklevel=2,
            )

    def arrived(self) -> None:
        """The training function is where the checkpoint was written: put variables back, and refuse those that differ and cannot be."""
        for frame in users():
            self._set_missing(called(frame), frame.f_locals.get("self"))
        for each, node in self._described():
            there = self.before.get(each.name)
            if there is None or same(there, node) or _variable(each.name) in self.accept:
                continue
            if not self._put_back(each, there):
                raise refusal(self.newcomer, _difference(each.name, there, node))

    def _set_missing(self, function: str, owner: Any) -> None:
        """Set the attributes of a function's `self` that the broken-off run had set in a loop."""
        if hasattr(owner, "__dict__"):
            for name in self.before:
                there, _, attribute = name.rpartition(":self.")
                if there == function and attribute not in vars(owner) and name.rpartition(":")[2] not in self.accept:
                    value = renewed(None, self.before[name], False)
                    if same(self.before[name], ObjectTree(()).of(value)):
                        object.__setattr__(owner, attribute, value)

    def _put_back(self, each: Holder, there: Node) -> bool:
        if each.owner is None and (each.set_here or there["kind"] not in _SHARED):
            return False
        value = renewed(each.value, there, each.owner is None)
        if each.owner is not None and value is not each.value:
            object.__setattr__(each.owner, each.attribute, value)
        elif value is not each.value:
            return False
        return same(there, ObjectTree(self.mine()).of(value))

    def moved_on(self) -> None:
        """The first step was taken by a run that did not arrive where the checkpoint was written: refuse variables that were reset."""
        for each, node in self._described():
            there = self.before.get(each.name)
            if there is None or not each.lasting or _variable(each.name) in self.accept or _is_number(there):
                continue  # `OwnVariables.moment` checks that a number continues
            if not same(lasting(there), lasting(node)):
                raise refusal(self.newcomer, _difference(each.name, there, node))

    def recorded(self, name: str) -> StateTree:
        """The value of a variable of this name in the checkpoint; None where `Worker.variables` could not hold it."""
        for each, node in self.before.items():
            if _variable(each).rpartition(".")[2] == name and node["kind"] != "object":
                return plain(node)
        return None

    def _described(self) -> Iterator[tuple[Holder, Node]]:
        mine, met = self.mine(), set[int]()
        for frame in users():
            for each in self._of(frame, carried.held(frame)):
                node = ObjectTree(mine, self._known).of(each.value)
                if node["kind"] == "opaque" or (node["kind"] in _SIMPLE and not (each.carried or each.owner is not None)):
                    continue
                if node["kind"] == "iterator" and not (each.lasting or each.owner is not None):
                    continue
                if node["kind"] not in _SIMPLE:
                    if id(each.value) in met:
                        continue
                    met.add(id(each.value))
                yield each, node

    def _of(self, frame: FrameType, variables: Iterator[carried.Held]) -> Iterator[Holder]:
        """The variables of a function or a script; each attribute of `self` separately."""
        function = called(frame)
        for name, value, goes_on, set_here, lasts in variables:
            if self.skipped(value):
                continue
            if name == "self" and hasattr(value, "__dict__"):
                kind: Any = type(value)
                anew = attributes_set_anew(kind)
                for each, inner in sorted(vars(value).items()):
                    hidden = isinstance(value, nn.Module) and each.startswith("_")
                    if not hidden and not self.skipped(inner) and each not in clock_attributes(kind):
                        yield Holder(f"{function}:self.{each}", inner, True, False, each not in anew, value, each)
            else:
                yield Holder(f"{function}:{name}", value, goes_on, set_here, lasts)


def called(frame: FrameType) -> str:
    """The name of a frame's function for messages; with a number where others of that name, such as decorators', have called it."""
    name, around, outer = frame.f_code.co_qualname, 1, frame.f_back
    while outer is not None:
        around += outer.f_code.co_qualname == name and not is_ours(str(outer.f_globals.get("__name__")))
        outer = outer.f_back
    number = f" number {around}" if around > 1 else ""
    return "the script" if name == "<module>" else f"{name.replace('<locals>.', '')}(){number}"


def _is_number(node: Node) -> bool:
    return node["kind"] == "number" or (node["kind"] == "value" and isinstance(node["value"], (bool, int, float)))


def _variable(name: str) -> str:
    return name.rpartition(":")[2]


def _difference(name: str, there: Node, here: Node) -> OtherWay:
    return other_variable(name, shown(there), shown(here), _refusal(name, there, here))


def _refusal(name: str, there: Node, here: Node) -> str:
    function, _, variable = name.rpartition(":")
    plain_name = variable.rpartition(".")[2]
    was, now = shown(there), shown(here)
    lost = next(filter(None, map(_lost, _all(there))), None)
    what = f"The variable {variable} of {function} was {was} where the checkpoint was written and is {'another' if was == now else now} now"
    override = f"override=[{variable!r}] (--override {variable}) resumes with it as it is."
    if lost is not None or there["kind"] == "object":
        why = lost or "it cannot be put back into its present value"
        return f"{what}, since a resumed run calls the training function anew, and {why}. {_remedy(variable)} {override}"
    return (
        f"{what}, since a resumed run calls the training function anew. Keep it: own = worker.variables({plain_name}=...), which takes its "
        f"value from this checkpoint, and write own.{plain_name} for it. {override}"
    )


def _lost(node: Node) -> str | None:
    """Why a checkpoint does not have it; None where it does."""
    if node["kind"] == "iterator":
        return "an iterator cannot be put where it was"
    return "it is too large, or nested too deeply, to be in the checkpoint" if node["kind"] in ("large", "long") else None


def _remedy(variable: str) -> str:
    name = variable.rpartition(".")[2]
    return (
        "Give it, or the object that has it, state_dict() and load_state_dict(), and call "
        f"worker.keep({name}={name}) after worker.attach, in the run that writes checkpoints."
    )


def _all(node: Node) -> Iterator[Node]:
    yield node
    for each in node.get("items", ()):
        yield from _all(each)
