"""Writes what pages state of the catalogue: docs/systems.md, docs/taxonomy.md, and the tables of README and of docs/guide/strategies.md.

    make docs-tables

A table stands between two comments, `<!-- systems -->` and `<!-- end of systems -->`. One test fails when a page is out of date.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import generate_systems
import generate_taxonomy

import polyrhythm
from polyrhythm.systems import SYSTEMS
from polyrhythm.systems.declaration import Family, declaration_of

ROOT = Path(__file__).resolve().parents[1]
README, GUIDE = ROOT / "README.md", ROOT / "docs" / "guide" / "strategies.md"


def systems() -> str:
    """The number of systems, and their names by family."""
    names: dict[Family, list[str]] = {family: [] for family in Family}
    for name, system in SYSTEMS.items():
        names[declaration_of(system).family].append(f"`{name}`")
    rows = [f"| {family.value} | {', '.join(each)} |" for family, each in names.items()]
    number = len(SYSTEMS) - len(names[Family.BASELINE])
    head = f"{number} published systems and a baseline, each with the settings of its paper; `polyrhythm systems NAME` shows one in full:"
    return "\n".join([head, "", "| | names |", "|---|---|", *rows])


def pieces() -> str:
    """The members of each package that has any: pieces, pieces around others, and parts of pieces."""
    rows = [
        f"| `pr.{package.__name__.rpartition('.')[2]}` | {_about(package)} | {_members(package)} |"
        for package in (importlib.import_module(f"polyrhythm.{name}") for name in polyrhythm._PACKAGES)
        if "MEMBERS" in package.__all__
    ]
    return "\n".join(["| package | what it has | names |", "|---|---|---|", *rows])


def _about(package: ModuleType) -> str:
    """The first sentence of a package's docstring."""
    return (package.__doc__ or "").split("\n\n")[0].replace("\n", " ").rstrip(".")


def _members(package: ModuleType) -> str:
    classes = [each for each in vars(package).values() if inspect.isclass(each) and each.__name__ in package.__all__]
    kinds = {type(member) for member in package.MEMBERS}
    pieces = [each for each in classes if each in kinds or "traits" in dir(each)]
    around = [each for each in pieces if any(field.name in ("inner", "topology") for field in fields(each))]
    parts = [each for each in classes if each not in pieces and not getattr(each, "_is_protocol", False)]
    groups = {"": [each for each in pieces if each not in around], "; around others: ": around, "; parts of them: ": parts}
    return "".join(head + ", ".join(f"`{each.__name__}`" for each in members) for head, members in groups.items() if members)


def with_table(text: str, name: str, table: str) -> str:
    """`text` with the table between its two comments."""
    head, tail = f"<!-- {name} -->", f"<!-- end of {name} -->"
    written, number = re.subn(f"{head}\n.*?\n{tail}", lambda _: f"{head}\n\n{table}\n\n{tail}", text, flags=re.DOTALL)
    assert number == 1, f"one pair of comments {head}, {tail}"
    return written


def pages() -> Iterator[tuple[Path, str]]:
    """Each page, as it should be."""
    yield generate_systems.PAGE, generate_systems.page()
    yield generate_taxonomy.PAGE, generate_taxonomy.page()
    yield README, with_table(README.read_text(encoding="utf-8"), "systems", systems())
    yield GUIDE, with_table(GUIDE.read_text(encoding="utf-8"), "pieces", pieces())


if __name__ == "__main__":
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
