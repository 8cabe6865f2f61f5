"""The line that imports a piece offers it and makes it a member."""

from __future__ import annotations

import importlib

import pytest

import polyrhythm

PACKAGES = [package for package in polyrhythm._PACKAGES if "MEMBERS" in importlib.import_module(f"polyrhythm.{package}").__all__]
WITHOUT_EXAMPLES = {"ByShares", "Delayed", "Groups", "RowKind"}
"""A shuffle for a given number of workers, a topology that is late, of which the laws do not hold, and two protocols."""


@pytest.mark.parametrize("package", PACKAGES)
def test_every_piece_is_a_member_or_in_one(package: str) -> None:
    module = importlib.import_module(f"polyrhythm.{package}")
    offered = {name: getattr(module, name) for name in module.__all__ if isinstance(getattr(module, name), type)}
    with_traits = {name for name, each in offered.items() if "traits" in dir(each)}
    shown = " ".join(map(repr, module.MEMBERS))
    assert {name for name in with_traits or offered if f"{name}(" not in shown} <= WITHOUT_EXAMPLES


@pytest.mark.parametrize("package", PACKAGES)
def test_no_member_is_listed_twice(package: str) -> None:
    members = importlib.import_module(f"polyrhythm.{package}").MEMBERS
    assert len(set(map(repr, members))) == len(members)
