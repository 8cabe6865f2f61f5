"""Variables whose value one iteration of a loop takes from the one before it, found in the code of a function."""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from polyrhythm.core.training.own_state.inner_parts import PROXIES
from polyrhythm.core.training.own_state.liveness import JUMPS, accesses, instructions, live, live_at
from polyrhythm.core.training.own_state.readings import clock_variables


class VariablePath(NamedTuple):
    """A variable by its name, or an attribute or an item of what it refers to."""

    name: str
    attribute: str = ""
    item: str = ""

    def __str__(self) -> str:
        return self.name + (f".{self.attribute}" if self.attribute else f"[{self.item!r}]" if self.item else "")


class _Region(NamedTuple):
    """A loop: the offsets of its first and last instruction, the variables that it carries to the next iteration, and all that it sets.

    Of the `targets` of a `for`, only whole numbers are recorded.
    """

    start: int
    end: int
    carried: frozenset[VariablePath]
    targets: frozenset[VariablePath]
    stored: frozenset[str]


_NO_LOOP = _Region(-1, -1, frozenset(), frozenset(), frozenset())


class Held(NamedTuple):
    """A variable whose value is read later.

    A loop under way has `carried` it on from an iteration before; if the innermost does, it is `set_here`. It is `lasting` if it has been
    there for longer than the iteration under way.
    """

    name: str
    value: Any
    carried: bool = False
    set_here: bool = False
    lasting: bool = False


def held(frame: FrameType) -> Iterator[Held]:
    """The variables of `frame`, without those of the functions around it, that it may read before it writes them."""
    code, local = frame.f_code, dict(frame.f_locals)
    under_way = sorted((each for each in _regions(code) if each.start <= frame.f_lasti <= each.end), key=lambda each: each.end - each.start)
    carried = {path.name for region in under_way for path in region.carried if not (path.attribute or path.item)}
    here = under_way[0] if under_way else _NO_LOOP
    for name in sorted((live_at(code, frame.f_lasti) | carried) & local.keys()):
        if name not in code.co_freevars and not name.startswith("__"):
            lasting = bool(under_way) and (name in carried or name not in here.stored)
            yield Held(name, local[name], name in carried, VariablePath(name) in here.carried and name in here.stored, lasting)


def bound(frame: FrameType) -> Iterator[Held]:
    """The variables of `frame`, without those of the functions around it, that have a value."""
    for name, value in list(frame.f_locals.items()):
        if name not in frame.f_code.co_freevars and not name.startswith("__"):
            yield Held(name, value)


def numbers(frame: FrameType) -> dict[str, Any]:
    """The values, by name, of variables that loops under way in `frame` carry to the next iteration: numbers, and lists of numbers."""
    local: Mapping[str, Any] = frame.f_locals
    found: dict[str, Any] = {}
    for region in _regions(frame.f_code):
        if region.start <= frame.f_lasti <= region.end:
            found |= {str(path): value for path in region.carried if (value := _plain(_value(path, frame, local))) is not None}
            targets = {path: _value(path, frame, local) for path in region.targets}
            found |= {str(path): value for path, value in targets.items() if type(value) is int}
    if "self" in frame.f_code.co_varnames:
        kind: Any = type(local.get("self"))
        for path in _of_methods(kind):
            if (value := _plain(_value(path, frame, local))) is not None:
                found[str(path)] = value
    return found


def _value(path: VariablePath, frame: FrameType, local: Mapping[str, Any]) -> Any:
    code = frame.f_code
    own = path.name in code.co_varnames or path.name in code.co_cellvars or path.name in code.co_freevars
    value = local.get(path.name) if own else local.get(path.name, frame.f_globals.get(path.name))
    if path.attribute:
        return getattr(value, "__dict__", {}).get(path.attribute)
    return value.get(path.item) if path.item and isinstance(value, dict) else None if path.item else value


def _plain(value: Any) -> Any:
    """A number, or a list of numbers; None for anything else."""
    if type(value) in PROXIES:
        return None
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Tensor) and value.numel() == 1 and value.device.type == "cpu":
        return value.item()
    if isinstance(value, (list, deque)) and len(value) <= _MOST and all(type(item) in (bool, int, float) for item in value):
        return list(value)
    return None


@lru_cache(maxsize=512)
def _regions(code: CodeType) -> tuple[_Region, ...]:
    ends: dict[int, int] = {}
    for each in instructions(code):
        if each.opcode in JUMPS and isinstance(each.argval, int) and each.argval <= each.offset:
            ends[each.argval] = max(each.offset, ends.get(each.argval, 0))
    nested = frozenset().union(*(_nested(const, code) for const in code.co_consts if isinstance(const, CodeType)), frozenset())
    regions = []
    for start, end in ends.items():
        inside = [each for each in instructions(code) if start <= each.offset <= end]
        stored = frozenset(name for deed, name in accesses(inside) if deed == "STORE")
        names = (stored & _at_begin(inside, code)) - clock_variables(code)
        carried = frozenset(map(VariablePath, names)) | _in_place(inside) | _grown(inside, code) | nested
        regions.append(_Region(start, end, carried, _targets(inside), stored.union(path.name for path in nested)))
    return tuple(regions)


def _at_begin(inside: list[dis.Instruction], code: CodeType) -> frozenset[str]:
    """The variables that may be read, when an iteration begins, before they are written."""
    return live(code)[inside[1 if inside[0].opname == "FOR_ITER" and len(inside) > 1 else 0].offset]


def _carried(code: CodeType) -> frozenset[VariablePath]:
    """The variables that are read before they are written."""
    first: dict[str, str] = {}
    stored = set()
    for deed, name in accesses(instructions(code)):
        first.setdefault(name, deed)
        if deed == "STORE":
            stored.add(name)
    return frozenset(VariablePath(name) for name in stored if first[name] == "LOAD")


def _targets(inside: list[dis.Instruction]) -> frozenset[VariablePath]:
    """The variables of a `for` over these instructions."""
    found: set[VariablePath] = set()
    if inside and inside[0].opname == "FOR_ITER":
        for each in inside[1:]:
            if each.opname.startswith("STORE_") and each.opname.endswith(_VARIABLES):
                found |= {VariablePath(name) for _, name in accesses([each])}
            elif each.opname != "UNPACK_SEQUENCE":
                break
    stored = [name for deed, name in accesses(inside) if deed == "STORE"]
    return frozenset(path for path in found if stored.count(path.name) == 1)  # others say nothing about how far the loop is


def _in_place(inside: Sequence[dis.Instruction]) -> frozenset[VariablePath]:
    """Attributes and items that an operation such as += changes."""
    found: set[VariablePath] = set()
    for place, each in enumerate(inside):
        before = inside[max(0, place - 4) : place]
        copies = sum(other.opname == "COPY" for other in before[-2:])
        if each.opname == "LOAD_ATTR" and copies == 1 and len(before) > 1 and before[-2].opname.startswith("LOAD_"):
            found.add(VariablePath(str(before[-2].argval), attribute=str(each.argval)))
        elif copies == 2 and len(before) == 4 and before[1].opname == "LOAD_CONST" and isinstance(before[1].argval, str):
            found.add(VariablePath(str(before[0].argval), item=before[1].argval))
    return frozenset(found)


def _grown(inside: list[dis.Instruction], code: CodeType) -> frozenset[VariablePath]:
    """Lists of the function's own that items are added to."""
    return frozenset(
        VariablePath(before.argval)
        for before, each in pairwise(inside)
        if each.opname in ("LOAD_METHOD", "LOAD_ATTR") and str(each.argval) in _GROWING and before.opname.startswith("LOAD_")
        if isinstance(before.argval, str) and before.argval not in code.co_freevars and before.opname != "LOAD_GLOBAL"
    )


def _nested(inner: CodeType, outer: CodeType) -> frozenset[VariablePath]:
    """Variables of a function, or of a script, that one defined in it changes."""
    here = inner.co_names if outer.co_name == "<module>" else outer.co_cellvars
    shared = {each.argval for each in instructions(inner) if each.opname in ("STORE_DEREF", "STORE_GLOBAL")}
    return frozenset(path for path in _carried(inner) if path.name in shared and path.name in here)


@lru_cache(maxsize=128)
def _of_methods(kind: type) -> frozenset[VariablePath]:
    """Attributes that methods of a class of the user's change in place."""
    found: set[VariablePath] = set()
    for each in kind.__mro__:
        if not each.__module__.startswith(("torch", "builtins", "polyrhythm.core.training")):
            for value in vars(each).values():
                if isinstance(value, FunctionType):
                    found |= {path for path in _in_place(instructions(value.__code__)) if path.name == "self" and path.attribute}
    return frozenset(found)


_VARIABLES = ("_FAST", "_FAST_CHECK", "_FAST_BORROW", "_NAME", "_GLOBAL", "_DEREF")
_GROWING = frozenset(("append", "extend", "appendleft", "insert"))
_MOST = 10_000
