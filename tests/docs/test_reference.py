"""The API reference names every public name once, and the examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

import polyrhythm

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
EXAMPLES = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


def test_every_public_name_is_on_one_page_of_the_reference() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "reference.py"))["pages"]()
    listed = Counter(name for _, text in pages for name in re.findall(r"^::: polyrhythm\.([\w.]+)$", text, re.MULTILINE))
    packages = [package for package in polyrhythm._PACKAGES if package != "systems"]  # which have a page of their own
    modules = {package: importlib.import_module(f"polyrhythm.{package}") for package in packages}
    pieces = {(package, name) for package, module in modules.items() for name in module.__all__ if callable(getattr(module, name))}
    wanted = {*polyrhythm._HOMES, *(f"{package}.{name}" for package, name in pieces if name not in polyrhythm._HOMES)}
    whole = runpy.run_path(str(ROOT / "docs" / "reference.py"))["STUDIES"]
    assert {name for name in listed if name not in whole and not name.startswith(("systems.", "core."))} == wanted
    assert set(listed.values()) == {1}


def test_there_are_examples_in_docstrings() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_examples_of_a_module_give_what_they_show(path: Path) -> None:
    module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
    lines = path.read_text(encoding="utf-8").splitlines()
    first = [
        line for line, before in zip(lines[1:], lines, strict=False) if ">>> " in line and not before.strip().startswith((">>>", "..."))
    ]
    assert len(first) == sum(line.strip() == "Examples:" for line in lines), (
        "an example stands in a section Examples:, or the page shows it as text"
    )
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted
    assert not found.failed
