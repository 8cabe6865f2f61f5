"""Checks the settings of dataclasses against their annotations, when they are made.

`@checked` stands on every piece of the catalogue, on strategies and exchanges, and on the settings of runtimes, launchers and networks.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import index
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

from polyrhythm.errors import CompositionError, PolyrhythmError

Class = TypeVar("Class", bound=type)
Check = Callable[[Any], bool]

_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
_LONGEST = 60


def checked(kind: Class) -> Class:
    """Make a dataclass refuse what its annotations exclude, in addition to its own `__post_init__`: a decorator below `@dataclass`.

    Whole numbers have at most 64 bits and are no bools, numbers are not NaN, texts have no null character, and where a piece belongs
    there is nothing plain, such as a number or a text. Other annotations are not looked at. Numbers of numpy's become Python's.
    """
    own: Callable[[Any], None] | None = vars(kind).get("__post_init__")

    def check(self: Any) -> None:
        for name, _, _ in _fields(type(self)):  # type: ignore[arg-type]
            given = getattr(self, name)
            if (value := _own(given)) is not given:
                object.__setattr__(self, name, value)
        if own is not None:
            try:
                own(self)
            except PolyrhythmError:  # its message says more
                raise
            except Exception:
                _refuse_others(self)
                raise
        _refuse_others(self)

    kind.__post_init__ = check  # type: ignore[attr-defined]
    return kind


def _refuse_others(settings: Any) -> None:
    """Raise CompositionError for a setting that its annotation excludes."""
    for name, fits, wanted in _fields(type(settings)):  # type: ignore[arg-type]
        value = getattr(settings, name)
        if not fits(value):
            raise CompositionError(
                f"{type(settings).__name__}({name}={shown(value)}) is given {_what(value)} where {wanted} belongs: give that."
            )


@cache
def _fields(kind: Any) -> tuple[tuple[str, Check, str], ...]:
    """The name of each setting, the check of a value, and the description of a fitting value for messages."""
    return tuple((field.name, *_check(str(field.type))) for field in dataclasses.fields(kind) if field.init)


def shown(value: object) -> str:
    """`value` as text for a message, cut to `_LONGEST` characters."""
    try:
        text = repr(value)
    except Exception:  # of whole numbers with thousands of digits, and of other people's classes
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]} …"


def whole_number(name: str, given: object, wanted: str) -> int:
    """`given` as a plain int, also where it is one of numpy's. Raises CompositionError for what is none, or has more than 64 bits."""
    if isinstance(given, bool) or not isinstance(given, SupportsIndex):
        raise CompositionError(f"{name}={shown(given)} is not a whole number: give {wanted}.")
    if not -(2**63) <= index(given) < 2**63:
        raise CompositionError(f"{name}={shown(given)} has more than 64 bits: give {wanted}.")
    return index(given)


@cache
def _check(annotation: str) -> tuple[Check, str]:
    """The check of a value against the annotation, and the description of a fitting value for messages."""
    parts = [_part(part) for part in _split(annotation, "|")]
    wanted = " or ".join(dict.fromkeys(wanted for _, wanted in parts))
    return (lambda value: any(fits(value) for fits, _ in parts)), wanted


def _part(annotation: str) -> tuple[Check, str]:
    name, _, inner = annotation.partition("[")
    name = name.rpartition(".")[2]
    if name in ("tuple", "Sequence"):
        return _several(_split(inner.removesuffix("]"), ","))
    if name in _KINDS:
        return _KINDS[name]
    if inner or not re.fullmatch(r"[A-Z]\w*", name):
        return _anything, "something else"
    article = "an" if name[0] in "AEIOU" else "a"
    return (lambda value: value is not None and not isinstance(value, _PLAIN)), f"{article} {name}"


def _own(value: Any) -> Any:
    """A Python number for a numpy scalar, so that settings which are equal are shown alike; else the value itself."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 else value


def _several(members: Sequence[str]) -> tuple[Check, str]:
    """The check of a tuple or list: of as many values as the annotation has, or of any number."""
    checks = [_check(member) for member in members if member != "..."]
    if len(checks) == 1:
        fits, wanted = checks[0]
        return (lambda value: _listed(value) and all(map(fits, value))), f"a list of {wanted.split(' ', 1)[-1]}s"

    def fit(value: Any) -> bool:
        return _listed(value) and len(value) == len(checks) and all(fits(item) for (fits, _), item in zip(checks, value, strict=True))

    return fit, f"a tuple of {len(checks)}"


def _listed(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _split(text: str, separator: str) -> list[str]:
    """The parts of an annotation between the separators that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == separator and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _anything(value: Any) -> bool:
    return True


def _whole(value: Any) -> bool:
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, SupportsIndex)):
        return False
    return -(2**63) <= value.__index__() < 2**63


def _number(value: Any) -> bool:
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, (SupportsFloat, SupportsIndex))):
        return False
    try:
        return not math.isnan(float(value))
    except (OverflowError, ValueError, TypeError, RuntimeError):  # more than a float holds; a tensor of several
        return False


def _what(value: object) -> str:
    """The description of `value` in a message."""
    if value is None:
        return "None"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return "a number of more than 64 bits"
    if isinstance(value, str) and "\0" in value:
        return "a text with a null character"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"a {type(value).__name__} of {len(value)}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


_KINDS: Mapping[str, tuple[Check, str]] = {
    "int": (_whole, "a whole number"),
    "float": (_number, "a number"),
    "bool": ((lambda value: isinstance(value, bool)), "a bool"),
    "str": ((lambda value: isinstance(value, str) and "\0" not in value), "a text"),
    "Path": ((lambda value: isinstance(value, os.PathLike)), "a path"),
    "None": ((lambda value: value is None), "None"),
    "Mapping": ((lambda value: isinstance(value, Mapping)), "a dict"),
    "dict": ((lambda value: isinstance(value, Mapping)), "a dict"),
    "Callable": (callable, "a function"),
    "Tensor": (_anything, "a tensor"),
    "Any": (_anything, "something else"),
    "object": (_anything, "something else"),
}
