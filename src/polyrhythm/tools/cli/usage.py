"""Wrong usage of any command, as our one sentence on stderr: what was given, why it cannot be, what to do; the exit code is 2."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer._click.exceptions import (
    BadOptionUsage,
    MissingParameter,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)  # it makes no others public
from typer.core import TyperGroup

from polyrhythm.errors import CompositionError, PolyrhythmError, unknown
from polyrhythm.tools.cli.failures import exit_code, show_error

_COMMAND, _EXTRA = re.compile("No such command '(.*?)'"), re.compile(r"Got unexpected extra argument\(s\) \((.*)\)")
_WHOLE = "whole number: give one, such as 4"
_NUMBERS = {"int_parsing": _WHOLE, "int_from_float": _WHOLE, "float_parsing": "number: give one, such as 2.5"}
_BOUNDS = {"greater_than_equal": "{ge:g} or more", "less_than_equal": "{le:g} or less", "finite_number": "a finite number"}


class OneSentence(TyperGroup):
    """The group of all commands. Where typer would draw a box, below it too, there is one sentence."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """As typer does, of the words before a command."""
        with _in_one_sentence():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """As typer does, of a command and its words."""
        with _in_one_sentence():
            return super().invoke(ctx)


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    try:
        yield
    except NoArgsIsHelpError:
        raise
    except UsageError as problem:
        error = _explained(problem)
        show_error(error)
        raise typer.Exit(exit_code(error)) from None


def _explained(problem: UsageError) -> PolyrhythmError:
    """The error, in our words where its kind is known."""
    command: Any = problem.cmd
    match problem:
        case NoSuchOption(option_name=name):
            return unknown("option", name, [each for one in command.params for each in one.opts if each.startswith("--")])
        case MissingParameter():
            return CompositionError(f"{_path(problem)} needs {_shown(problem.param)}: {_usage(problem, command)}.")
        case BadOptionUsage(option_name=name) if "does not take" in problem.message:
            return CompositionError(f"{name} takes no value: leave out = and what follows it.")
        case BadOptionUsage(option_name=name):
            return CompositionError(f"{name} needs a value: write {name} VALUE.")
        case typer.BadParameter():
            return CompositionError(_refused(problem))
    if isinstance(command, TyperGroup) and (found := _COMMAND.match(problem.message)):
        return unknown("command", found[1], command.commands)
    if found := _EXTRA.match(problem.message):
        return CompositionError(f"{_path(problem)} takes no further word: {found[1]!r} belongs to no option; {_usage(problem, command)}.")
    return CompositionError(f"{problem.message.rstrip('.')}: polyrhythm {_path(problem)} -h says what {_path(problem)} takes.")


def _refused(problem: typer.BadParameter) -> str:
    """The sentence on a value, by what has refused it: typer's own check of types and bounds, or a parser of ours with its own sentence."""
    name, why = _name(problem.param), problem.message
    found: Mapping[str, Any] = getattr(problem.__cause__, "errors", lambda: [{}])()[0]
    kind, given = str(found.get("type", "")), found.get("input")
    if kind in _NUMBERS:
        return f"{name} {given} is no {_NUMBERS[kind]}."
    if kind in _BOUNDS:
        return f"{name} {given} is out of range: give {_BOUNDS[kind].format(**found.get('ctx', {}))}."
    return why if name in why else f"{name}: {why}"


def _name(parameter: Any) -> str:
    """The parameter as it is typed: the longest name of an option, the word for an argument."""
    return max(parameter.opts, key=len) if parameter.param_type_name == "option" else str(parameter.metavar or parameter.name)


def _shown(parameter: Any) -> str:
    return f"{_name(parameter)} {parameter.metavar or ''}".rstrip() if parameter.param_type_name == "option" else _name(parameter)


def _path(problem: UsageError) -> str:
    """The command with its groups."""
    context, names = problem.ctx, list[str]()
    while context is not None and context.parent is not None:
        names.insert(0, str(context.info_name))
        context = context.parent
    return " ".join(names)


def _usage(problem: UsageError, command: Any) -> str:
    """The least that the command needs, and where the rest is said."""
    needed = [_shown(each) for each in command.params if each.required]
    path = f"polyrhythm {_path(problem)}"
    return f"write {' '.join([path, *needed])}; {path} -h says the rest"
