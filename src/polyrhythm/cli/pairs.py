"""KEY=VALUE as a person types it, and the values that it stands for."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, Union, get_args, get_origin

from polyrhythm.errors import CompositionError

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WANTED = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}


def pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    """The KEY=VALUEs of `flag` by key; the last one counts where a key is given twice."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise CompositionError(f"{flag} was given {text!r}: write a name, = and a value without spaces between, such as epochs=5.")
        found[key.strip()] = value.strip()
    return found


def convert(owner: str, name: str, text: str, kind: Any) -> Any:
    """`text` as a value of the annotation `kind`: a number, text, true or false, none, or a union of those."""
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    for each in sorted(kinds, key=list(_WANTED).index if all(one in _WANTED for one in kinds) else lambda _: 0):
        try:
            return _as(each, text)
        except (ValueError, KeyError):
            continue
    if not any(each in _WANTED for each in kinds):
        raise CompositionError(f"{owner} has the option {name}, but it cannot be given as text: compose it in Python instead.")
    wanted = " or ".join(_WANTED[each] for each in kinds if each in _WANTED)
    raise CompositionError(f"{owner} cannot take {name}={text}: {name} must be {wanted}.")


def _as(kind: Any, text: str) -> Any:
    if kind is bool:
        return _TRUTH[text.lower()]
    if kind is type(None):
        return {"none": None}[text.lower()]
    if kind in (int, float, str):
        return kind(text)
    raise ValueError(kind)
