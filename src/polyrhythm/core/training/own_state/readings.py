"""Variables and attributes that hold readings of a clock, and attributes that are set anew, found in the code.

Readings of another run mean nothing, so `carried` and `contents` leave such variables out.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType, FunctionType

from polyrhythm.core.training.own_state.liveness import accesses, instructions

_READ = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_CLOCKS = frozenset((*_READ, *(f"{name}_ns" for name in _READ), "default_timer", "timer", "now", "utcnow", "today"))
_PREFIX = 10


@lru_cache(maxsize=512)
def clock_variables(code: CodeType) -> frozenset[str]:
    """Variables that are given nothing but readings, or other such variables."""
    return frozenset(_read(code, ("_FAST", "_NAME", "_DEREF", "_GLOBAL")))


@lru_cache(maxsize=128)
def clock_attributes(kind: type) -> frozenset[str]:
    """Attributes that methods of a class give nothing but readings."""
    found: set[str] = set()
    others: set[str] = set()
    for each in kind.__mro__:
        for value in vars(each).values():
            if isinstance(value, FunctionType):
                readings = _read(value.__code__, ("_ATTR",))
                found |= readings
                others |= _stored(value.__code__, ("_ATTR",)) - readings
    return frozenset(found - others)


@lru_cache(maxsize=128)
def attributes_set_anew(kind: type) -> frozenset[str]:
    """Attributes that methods of a class set, other than when an object is made."""
    methods = (
        value for each in kind.__mro__ for name, value in vars(each).items() if isinstance(value, FunctionType) and name != "__init__"
    )
    return frozenset(name for value in methods for name in _stored(value.__code__, ("_ATTR",)))


def _read(code: CodeType, ends: tuple[str, ...]) -> set[str]:
    known: set[str] = set()
    while True:  # until those that are given another such variable are found too
        found: set[str] = set()
        others: set[str] = set()
        for place, each in enumerate(instructions(code)):
            if isinstance(each.argval, str) and each.opname.startswith("STORE_") and each.opname.endswith(ends):
                before = _statement(instructions(code)[max(0, place - _PREFIX) : place])
                if before[:1] and before[0].opname in ("LOAD_CONST", "LOAD_SMALL_INT") and len(before) <= (1 if ends != ("_ATTR",) else 2):
                    continue  # the number that it has at the beginning
                (found if _is_reading(before, known, ends) else others).add(each.argval)
        if found - others == known:
            return known
        known = found - others


def _statement(before: Sequence[dis.Instruction]) -> Sequence[dis.Instruction]:
    """The instructions of the last statement alone; the statement before it ends with a STORE, a POP or a jump."""
    ends = [place for place, each in enumerate(before) if each.opname.startswith(("STORE_", "POP_", "JUMP", "FOR_", "UNPACK"))]
    last = next((place for place in reversed(ends) if place == 0 or before[place - 1].opname != "COPY"), -1)
    return before[last + 1 :]


def _is_reading(before: Sequence[dis.Instruction], known: set[str], ends: tuple[str, ...]) -> bool:
    """True if the instructions before a STORE leave a reading; for a variable, also a value that is computed from one."""
    attribute = ends == ("_ATTR",)
    while before and (before[-1].opname == "COPY" or (len(before) > 1 and before[-2].opname == "COPY")):
        before = before[:-1]  # of a = b = reading
    while before and attribute and before[-1].opname.startswith("LOAD_"):
        before = before[:-1]  # the object that has the attribute
    if not before:
        return False
    if before[-1].opname.startswith("CALL"):
        return _calls(before[:-1])
    if before[-1].opname.startswith("BINARY_OP") and not attribute:
        return _calls(before) or any(name in known for _, name in accesses(before))
    return any(name in known for deed, name in accesses(before[-1:]) if deed == "LOAD")


def _calls(before: Sequence[dis.Instruction]) -> bool:
    """True if the object that was loaded last, besides variables, is a clock."""
    return any(
        each.opname.startswith(("LOAD_GLOBAL", "LOAD_METHOD", "LOAD_ATTR", "LOAD_NAME")) and each.argval in _CLOCKS for each in before[-4:]
    )


def _stored(code: CodeType, ends: tuple[str, ...]) -> set[str]:
    return {each.argval for each in instructions(code) if each.opname.startswith("STORE_") and each.opname.endswith(ends)}
