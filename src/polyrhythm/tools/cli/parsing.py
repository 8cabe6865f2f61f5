"""Reads a command line: ambiguous or unknown words are refused, and only what follows -- belongs to the JOB.

Click gives a word that no option takes to the JOB (`--resume ck` would pass `ck` to the script), and takes an option for the value of the
one before it (`--checkpoint --resume` would write to a directory of that name). Both would be seen only in what the run does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from polyrhythm.errors import CompositionError, PolyrhythmError, UnknownNameError, did_you_mean, nearest, unknown
from polyrhythm.tools.cli.failures import exit_code, show_error

_JOB, _ARGUMENTS = "job", "arguments"
_VALUE = re.compile(r"[a-z]{3,}")


class StrictCommand(TyperCommand):
    """A command that refuses unknown options, options without their values, and words that belong to nothing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as click does, except the words after --, which belong to the JOB alone."""
        if ctx.resilient_parsing:
            return list(super().parse_args(ctx, args))
        own, rest = _divided(args)
        try:
            self._check(own)
            if not self._for_job():
                return list(super().parse_args(ctx, args))
            left = list(super().parse_args(ctx, list(own)))
            if stray := ctx.params.get(_ARGUMENTS):
                raise self._stray(stray[0], own)
            if rest and ctx.params.get(_JOB) is None:
                raise CompositionError(f"{shlex.join(rest)} was given after --, for a JOB, and no JOB was given: name it before --.")
        except PolyrhythmError as error:
            show_error(error)
            raise typer.Exit(exit_code(error)) from None
        ctx.params[_ARGUMENTS] = rest or None
        return left

    def _check(self, own: Sequence[str]) -> None:
        """Raises PolyrhythmErrors for options that the command does not have, and for those whose value is missing."""
        takes = self._options()
        waiting = ""
        for word in own:
            if waiting and word in takes:
                raise CompositionError(f"{waiting} needs a value, and {word} follows it: write {waiting} VALUE.")
            name = word.partition("=")[0]
            if not waiting and name.startswith("--") and name not in takes:
                raise _unknown_option(word, takes, self._by_value(name), self._for_job())
            waiting = word if not waiting and takes.get(word, False) else ""

    def _options(self) -> dict[str, bool]:
        """For each option, by its names, True if it takes a value."""
        known = {"-h": False, "--help": False}
        for parameter in self.params:
            for name in (*parameter.opts, *parameter.secondary_opts):
                if name.startswith("-"):
                    known[name] = not getattr(parameter, "is_flag", False)
        return known

    def _by_value(self, name: str) -> list[str]:
        """The options whose value has that name: SITE of --machines SITE is what --site asks for."""
        named = name.lstrip("-").casefold()
        values = {parameter.opts[0]: _VALUE.findall(str(parameter.metavar or "").casefold()) for parameter in self.params}
        return [option for option, words in values.items() if option.startswith("--") and named in words]

    def _for_job(self) -> bool:
        """True if the command has a JOB that takes arguments."""
        return any(parameter.name == _ARGUMENTS for parameter in self.params)

    def _stray(self, word: str, own: Sequence[str]) -> CompositionError:
        """The error for a word that is neither the JOB nor an option's value."""
        before = own[own.index(word) - 1] if word in own[1:] else ""
        flag = next((each for each in self.params if before in each.opts and getattr(each, "is_flag", False)), None)
        about = "" if flag is None else f" {before} takes no value: {str(getattr(flag, 'help', '')).rstrip('.')}."
        return CompositionError(
            f"{word!r} belongs to no option.{about} Arguments for the JOB's own script come after --, such as: JOB -- {shlex.quote(word)}."
        )


def _divided(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first --, and those after it."""
    where = args.index("--") if "--" in args else len(args)
    return list(args[:where]), list(args[where + 1 :])


def _unknown_option(word: str, known: Iterable[str], by_value: Sequence[str], for_job: bool) -> PolyrhythmError:
    """The error for an option that the command does not have; `by_value` are those whose value has its name."""
    name = word.partition("=")[0]
    options = [each for each in known if each.startswith("--")]
    near = [*by_value, *nearest(name, options)] if len(by_value) == 1 else []  # FILE is a value of several: it tells nothing
    error = UnknownNameError(f"No option is called {name!r}. {did_you_mean(near)}") if near else unknown("option", name, options)
    further = f" An option of the JOB's own script comes after --: JOB -- {shlex.quote(word)}." if for_job else ""
    return type(error)(f"{error}{further}")
