"""Live variables of a function: those that may be read before they are written, from each of its instructions on, for `carried`."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import CodeType

_VARIABLES = ("_FAST", "_FAST_CHECK", "_FAST_BORROW", "_NAME", "_GLOBAL", "_DEREF")
_AWAY = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE"))
_LAST = frozenset(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"))
JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


@lru_cache(maxsize=512)
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """The instructions of a function, without the prefixes of long arguments: each has the offset of its first prefix, as jumps have."""
    found: list[dis.Instruction] = []
    begin: int | None = None
    for each in dis.get_instructions(code):
        if each.opname == "EXTENDED_ARG":
            begin = each.offset if begin is None else begin
        else:
            found.append(each if begin is None else each._replace(offset=begin))
            begin = None
    return tuple(found)


def accesses(several: Iterable[dis.Instruction]) -> Iterator[tuple[str, str]]:
    """Pairs of LOAD or STORE and a variable's name, in the order of the code."""
    for each in several:
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        deeds = [part for part in each.opname.split("_") if part in ("LOAD", "STORE")]
        if each.opname.endswith(_VARIABLES) and len(deeds) == len(names):
            yield from zip(deeds, names, strict=True)


@lru_cache(maxsize=512)
def live(code: CodeType) -> Mapping[int, frozenset[str]]:
    """By the offset of an instruction, the variables that are read on some path from it before they are written.

    Every `for` is taken to have an item, since what only its body sets is no state where it has none. A call reads the variables that
    functions defined here read.
    """
    following = _following(code)
    inner = frozenset().union(*(_read_by(const, code) for const in code.co_consts if isinstance(const, CodeType)), frozenset())
    deeds = {each.offset: _deeds(each, inner) for each in instructions(code)}
    found: dict[int, frozenset[str]] = dict.fromkeys(following, frozenset())
    changed = True
    while changed:
        changed = False
        for each in reversed(instructions(code)):
            read, written = deeds[each.offset]
            after = frozenset().union(*(found[other] for other in following[each.offset]), frozenset())
            now = read | (after - written)
            if now != found[each.offset]:
                found[each.offset], changed = now, True
    return found


def live_at(code: CodeType, offset: int) -> frozenset[str]:
    """The variables that are read before they are written from the instruction under way at `offset` on; a `for` there has an item."""
    here = max((each.offset for each in instructions(code) if each.offset <= offset), default=None)
    return frozenset() if here is None else live(code)[here]


def _deeds(each: dis.Instruction, inner: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The variables that an instruction reads before it writes them, and those that it writes."""
    if each.opname.startswith("CALL"):
        return inner, frozenset()
    if each.opname == "LOAD_CLOSURE":
        return frozenset((each.argval,)), frozenset()
    if each.opname.startswith("DELETE_") and each.opname.endswith(_VARIABLES):
        return frozenset(), frozenset((each.argval,))
    read: set[str] = set()
    written: set[str] = set()
    for deed, name in accesses([each]):
        if deed == "STORE":
            written.add(name)
        elif name not in written:
            read.add(name)
    return frozenset(read), frozenset(written)


def _following(code: CodeType) -> dict[int, list[int]]:
    """The offsets of the instructions that may come after each."""
    all_of_it = instructions(code)
    exits = {each.offset: each.argval for each in all_of_it if each.opname == "FOR_ITER"}
    found: dict[int, list[int]] = {}
    for place, each in enumerate(all_of_it):
        after = [all_of_it[place + 1].offset] if place + 1 < len(all_of_it) else []
        if each.opname in _LAST:
            found[each.offset] = []
        elif each.opname == "FOR_ITER" or each.opcode not in JUMPS:
            found[each.offset] = after
        else:
            target = [each.argval]
            if each.argval in exits and each.argval <= each.offset:
                target.append(exits[each.argval])
            found[each.offset] = target if each.opname in _AWAY else target + after
    for start, end, handler in _handlers(code):
        for offset in found:
            if start <= offset < end:
                found[offset].append(handler)
    return found


def _handlers(code: CodeType) -> Iterator[tuple[int, int, int]]:
    """Ranges of offsets whose exceptions are handled, with the handler's offset; those of `with` only where contextlib.suppress is used."""
    following = {one.offset: other.opname for one, other in pairwise(instructions(code))}
    for each in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
        if following.get(each.target) != "WITH_EXCEPT_START" or "suppress" in code.co_names:
            yield each.start, each.end, each.target


def _read_by(inner: CodeType, outer: CodeType) -> frozenset[str]:
    """Variables of a function, or of a script, that one defined in it reads."""
    here = outer.co_cellvars if outer.co_name != "<module>" else inner.co_names
    names = frozenset(name for deed, name in accesses(instructions(inner)) if deed == "LOAD" and name in here)
    return names.union(*(_read_by(const, outer) for const in inner.co_consts if isinstance(const, CodeType)))
