"""Shell completion of the names of reproductions, read without importing torch."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def reproduction_names() -> tuple[str, ...]:
    """The reproductions: the names in the calls of `Reproduction` in the catalogue, found in its text."""
    files = (Path(__file__).resolve().parent / "catalogue").glob("*.py")
    calls = (node for path in files for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Reproduction")
    values = (word.value for call in named for word in call.keywords if word.arg == "name")
    return tuple(sorted(str(value.value) for value in values if isinstance(value, ast.Constant)))


def complete_reproductions(incomplete: str) -> list[str]:
    """The names of reproductions that begin with the typed text."""
    return [name for name in reproduction_names() if name.startswith(incomplete)]
