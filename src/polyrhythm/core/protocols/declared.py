"""The catalogue's declarations: the line that imports a piece into its package offers it, and puts it on the list of members.

Each package of the catalogue calls both functions on its `globals()`, after the imports.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any


def names(package: Mapping[str, Any]) -> list[str]:
    """The names that a package offers: classes, functions and lists; not its modules and private names."""
    return sorted(name for name, value in package.items() if name[0] != "_" and (isinstance(value, tuple) or _is_ours(value)))


def members(package: Mapping[str, Any]) -> tuple[Any, ...]:
    """Examples of each piece of a package, in the order of its imports: its module's `EXAMPLES`, or the piece with its defaults.

    Where pieces have `traits`, classes without are parts of pieces, and have no defaults here. A piece without defaults and `EXAMPLES` is
    left to the compositions that its package lists.
    """
    classes = [value for value in package.values() if isinstance(value, type) and _is_ours(value) and is_dataclass(value)]
    with_traits = [each for each in classes if "traits" in dir(each)]
    found: dict[str, tuple[Any, ...]] = {}
    for each in classes:
        declared = getattr(sys.modules[each.__module__], "EXAMPLES", None)
        if declared is not None:
            found[each.__module__] = declared
        elif (each in with_traits or not with_traits) and not _needs_values(each):
            found[each.__module__] = (*found.get(each.__module__, ()), each())
    return tuple(example for examples in found.values() for example in examples)


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("polyrhythm.")


def _needs_values(piece: Any) -> bool:
    return any(each.init and each.default is MISSING and each.default_factory is MISSING for each in fields(piece))
