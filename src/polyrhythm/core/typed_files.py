"""Files that people write: read into typed values, or refused with the place of the mistake, and with what was perhaps meant."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from re import search
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from polyrhythm.errors import CompositionError, did_you_mean, either, nearest

Written = TypeVar("Written")

_LISTED = 1000
"""So many entries of a folder are compared with a name."""


def read_typed(path: Path, kind: type[Written], what: str, hint: str, remedy: str = "Give a file in TOML or JSON.") -> Written:
    """The file as `kind`; TOML by its ending, else JSON. Raises CompositionError.

    `what` is called so in messages, such as "SITE file"; the `hint` says what it has, and the `remedy` what to give in place of none.
    """
    try:
        content = path.read_bytes()
        return msgspec.convert(tomllib.loads(content.decode()), kind) if path.suffix == ".toml" else msgspec.json.decode(content, type=kind)
    except (OSError, UnicodeDecodeError) as problem:
        raise unreadable(what, path, problem, remedy) from problem
    except (msgspec.MsgspecError, tomllib.TOMLDecodeError) as problem:
        raise CompositionError(f"The {what} {str(path)!r} cannot be used: {mistake(problem, kind)}. {hint}") from problem


def unreadable(what: str, path: Path, problem: Exception, remedy: str) -> CompositionError:
    """The error for a file that cannot be read; of one that is not there, with those beside it that have nearly its name."""
    absent = isinstance(problem, FileNotFoundError)
    reason = "there is no such file" if absent else problem.strerror if isinstance(problem, OSError) else str(problem)
    near = beside(path) if absent else []
    return CompositionError(f"The {what} {str(path)!r} cannot be read: {reason}. {did_you_mean(near) or remedy}")


def beside(path: Path) -> list[str]:
    """The paths in the folder of `path` that have nearly its name; none where there is no such folder."""
    try:
        names = [each.name for each in islice(path.parent.iterdir(), _LISTED)]
    except OSError:
        return []
    return [str(path.parent / name) for name in nearest(path.name, names)]


def instead(folder: Path, remedy: str) -> str:
    """The `remedy`, such as "give one that …", for a folder that is not what was wanted; of one that is not there, those like it."""
    if folder.exists():
        return remedy
    return f"it is not there. {did_you_mean(beside(folder)) or remedy[0].upper() + remedy[1:]}"


def mistake(problem: Exception, kind: Any) -> str:
    """What is wrong in what was written for `kind`: of a field that there is not, with those that have nearly its name."""
    found = search(r"unknown field `(\w+)`", str(problem))
    near = nearest(found[1], set(_fields(inspect.type_info(kind), set()))) if found else []
    return f"{problem} (did you mean {either(near)}?)" if near else str(problem)


def _fields(info: Any, seen: set[Any]) -> Iterator[str]:
    """The names of all fields that what is written for a type may have, at any depth."""
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        if info.cls in seen:
            return
        seen.add(info.cls)
        for field in info.fields:
            yield field.encode_name
            yield from _fields(field.type, seen)
    for name in ("types", "item_types"):
        for each in getattr(info, name, ()):
            yield from _fields(each, seen)
    for name in ("item_type", "value_type"):
        if (inner := getattr(info, name, None)) is not None:
            yield from _fields(inner, seen)
