"""The rows of both lists, read from their files, and whether what they name exists."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec


class NamedThing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row: systems, places in the code or in documents, reproductions and commands of a named thing, and what is to be said of it.

    `places` are "module" or "module:name", or files of the repository. A thing without any has a `note` that says why.
    """

    name: str
    row: int = 0
    systems: list[str] = []
    places: list[str] = []
    reproductions: list[str] = []
    commands: list[str] = []
    note: str = ""

    @property
    def all_commands(self) -> list[str]:
        """Its own commands, and those that its reproductions have."""
        return [*self.commands, *(f"polyrhythm reproduce {name}" for name in self.reproductions)]


class _ReadingList(msgspec.Struct, frozen=True):
    things: list[NamedThing]


@cache
def parallelism() -> tuple[NamedThing, ...]:
    """The list on partitioning, high-performance computing and frameworks."""
    return _read("parallelism.toml")


@cache
def data_parallel_systems() -> tuple[NamedThing, ...]:
    """The list of data-parallel systems."""
    return _read("systems.toml")


def exists(place: str, root: Path) -> bool:
    """True if the place can be imported, or is a file below `root`."""
    if "/" in place:
        return (root / place).is_file()
    module, _, name = place.partition(":")
    try:
        there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
    return there and (not name or hasattr(importlib.import_module(module), name))  # some modules need an extra that is not installed


def _read(name: str) -> tuple[NamedThing, ...]:
    text = (files("polyrhythm_reproductions.reading") / name).read_bytes()
    return tuple(msgspec.toml.decode(text, type=_ReadingList).things)
