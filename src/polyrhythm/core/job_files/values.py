"""Values as typed text: numbers, text, words, true or false, none."""

from __future__ import annotations

import shlex
import types
from collections.abc import Sequence
from typing import Any, Union, get_args, get_origin

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.errors import CompositionError

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
# In the order in which a union is tried: text takes everything, so it comes last.
_WANTED = {
    type(None): "none",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Crew: "a number of workers, or two as in 2..8",
    Sequence[str]: "words, quoted as for a shell",
    str: "text",
}
ANYTHING = int | float | str | None
"""The kind of a value whose type is unknown."""


def wanted(kind: Any) -> str | None:
    """A description of what can be typed for a value of the annotation `kind`; None where nothing can."""
    known = [_WANTED[each] for each in kinds_of(kind) if each in _WANTED]
    return " or ".join(known) if known else None


def read(text: str, kind: Any) -> Any:
    """`text` as a value of the annotation `kind`: a number, text, words, true or false, none, or a union of those.

    Raises ValueError for what is none of them.
    """
    kinds = kinds_of(kind)
    for each in (known for known in _WANTED if known in kinds):
        try:
            return _as(each, text)
        except (ValueError, KeyError, CompositionError):
            continue
    raise ValueError(text)


def kinds_of(kind: Any) -> tuple[Any, ...]:
    """The members of a union; of another annotation itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _as(kind: Any, text: str) -> Any:
    if kind is bool:
        return _TRUTH[text.strip().lower()]
    if kind is Crew:
        return Crew.parse(text)
    if kind is type(None):
        return {"none": None}[text.strip().lower()]
    if kind == Sequence[str]:
        return tuple(shlex.split(text))
    return kind(text)
