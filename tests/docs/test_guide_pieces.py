"""The guide's table of pieces has every piece."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from polyrhythm import codec, consistency, controllers, merge, shuffle, topology
from polyrhythm import local_rules as local

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "strategies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("axis", [consistency, topology, codec, merge, local, controllers, shuffle], ids=lambda axis: axis.__name__)
def test_every_member_of_an_axis_is_in_the_table(axis: ModuleType) -> None:
    [table] = [part for part in GUIDE.split("\n\n") if part.startswith("| piece | question | members |")]
    missing = {type(member).__name__ for member in axis.MEMBERS if f"`{type(member).__name__}`" not in table}
    assert not missing
