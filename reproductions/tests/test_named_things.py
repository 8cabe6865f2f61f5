"""The page of named things has every row of both lists and every reproduction; each place exists, and each command can be typed."""

from __future__ import annotations

import runpy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.cli.app import app
from polyrhythm_reproductions.reading.named_things import NamedThing, data_parallel_systems, exists, parallelism
from polyrhythm_reproductions.registry import REPRODUCTIONS

ROOT = Path(__file__).parents[2]
THINGS = [*parallelism(), *data_parallel_systems()]
COMMANDS = sorted({command for thing in THINGS for command in thing.all_commands})
by_name = pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.name)


@pytest.fixture(scope="module")
def generator() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "reproductions" / "generate_named_things.py"))


def test_the_page_is_up_to_date(generator: dict[str, Any]) -> None:
    page: Callable[[], str] = generator["page"]
    assert generator["PAGE"].read_text(encoding="utf-8") == page(), "run python reproductions/generate_named_things.py"


def test_no_row_of_a_list_is_missing() -> None:
    assert [thing.row for thing in parallelism()] == list(range(1, 54))
    assert len(data_parallel_systems()) == 47
    assert len({thing.name for thing in THINGS}) == 100


def test_every_reproduction_is_on_the_page(generator: dict[str, Any]) -> None:
    text = generator["page"]()
    assert [name for name in REPRODUCTIONS if f"`polyrhythm reproduce {name}`" not in text] == []


@by_name
def test_every_place_exists_and_what_has_none_says_why(thing: NamedThing) -> None:
    assert [place for place in thing.places if not exists(place, ROOT)] == []
    assert set(thing.systems) <= set(SYSTEMS)
    assert set(thing.reproductions) <= set(REPRODUCTIONS)
    assert thing.places or thing.systems or thing.reproductions or thing.note


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_typed(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "polyrhythm"
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    with found.make_context("polyrhythm", words):
        pass


def test_a_place_that_is_nowhere_is_noticed() -> None:
    assert not exists("polyrhythm.topology:Rnig", ROOT)
    assert not exists("polyrhythm.topologies", ROOT)
    assert not exists("docs/no-page.md", ROOT)
