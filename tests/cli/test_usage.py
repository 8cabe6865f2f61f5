"""Wrong usage is one sentence on stderr and exit code 2: a law over all commands, and over all of their options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from polyrhythm.tools.cli.app import app

from .conftest import Command


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command with its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands(get_command(app)))
NUMBERS = {
    (path, option.opts[0]): option
    for path, command in ALL.items()
    for option in command.params
    if option.type_descriptor.annotation in (int, float) and option.opts[0].startswith("-")
}
PATHS = [
    (path, option.opts[0])
    for path, command in ALL.items()
    for option in command.params
    if option.metavar in ("DIR", "FILE", "PATH", "RUN_DIR", "SITE") and option.opts[0].startswith("-") and option.opts[0] != "--python"
]


def sentence(done: Any, *words: str) -> None:
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.startswith("polyrhythm: ")
    assert done.err.count("\n") == 1
    assert all(word in done.err for word in words), done.err


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if any(each.required for each in command.params)], ids=" ".join)
def test_what_is_missing_is_named(path: tuple[str, ...], polyrhythm: Command) -> None:
    sentence(polyrhythm(*path), f"polyrhythm: {' '.join(path)} needs ", f"write polyrhythm {' '.join(path)} ", "-h says the rest")


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_an_option_that_there_is_not_is_refused(path: tuple[str, ...], polyrhythm: Command) -> None:
    sentence(polyrhythm(*path, "--absnet"), "No option is called '--absnet'")


@pytest.mark.parametrize(("path", "option"), NUMBERS, ids=lambda part: part if isinstance(part, str) else " ".join(part))
def test_what_is_no_number_is_refused(path: tuple[str, ...], option: str, polyrhythm: Command) -> None:
    sentence(polyrhythm(*path, option, "abc"), option, "abc is no ", "such as ")


@pytest.mark.parametrize(("path", "option"), PATHS, ids=lambda part: part if isinstance(part, str) else " ".join(part))
def test_an_empty_path_is_refused(path: tuple[str, ...], option: str, polyrhythm: Command) -> None:
    sentence(polyrhythm(*path, f"{option}="), f"{option}: it is empty: give a path")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("simulate --steps 0 x.py", "--steps 0 is out of range: give 1 or more."),
        ("serve run --port 70000", "--port 70000 is out of range: give 65535 or less."),
        ("cluster simulate tiresias --jobs -1", "--jobs -1 is out of range: give 1 or more."),
        ("serve simulate m.toml --seconds -1", "--seconds: -1 is no number above zero"),
        ("run x.py --workers x", "--workers x is no number of workers"),
        ("run x.py --seed 2.5", "--seed 2.5 is no whole number"),
        ("run x.py --seed", "--seed needs a value"),
        ("run x.py --json=3", "--json takes no value"),
        ("run x.py --out=", "--out: it is empty"),
        ("systems ssp diloco", "systems takes no further word: 'diloco'"),
        ("compaer", "No command is called 'compaer'. Did you mean 'compare'?"),
        ("cluster simulat", "No command is called 'simulat'. Did you mean 'simulate'?"),
    ],
)
def test_each_kind_has_its_sentence(typed: str, words: str, polyrhythm: Command) -> None:
    sentence(polyrhythm(*typed.split()), words)


def test_groups_without_a_command_show_what_there_is(polyrhythm: Command) -> None:
    for path in ((), ("cluster",), ("serve",)):
        done = polyrhythm(*path)
        assert "Usage: polyrhythm" in done.out + done.err
