"""The part of `polyrhythm check` that is for scripts of torch.distributed."""

from __future__ import annotations

import ast
import importlib
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer

from polyrhythm.errors import WorkloadError
from polyrhythm.tools.cli.output import print_json, reserved


@dataclass(frozen=True, slots=True)
class ScriptOptions:
    """The options that only scripts have."""

    twin: str | None
    steps: int
    collectives: bool
    recipe: bool


def check_script(script: str, arguments: tuple[str, ...], ranks: int, given: ScriptOptions, as_json: bool) -> NoReturn:
    """Check it, print what was found, and exit with 1 if anything was."""
    from polyrhythm.tools.recipes.script_recipe import check_script_recipe
    from polyrhythm.torch_programs.checking.check import check

    with reserved(as_json):
        twin = None if given.twin is None else _function(given.twin)
        checked = check(script, *arguments, ranks=ranks, twin=twin, steps=given.steps)
        recipe = check_script_recipe(script, *arguments, ranks=ranks) if given.recipe else []
    if as_json:
        findings = [{"cause": each.cause, "what": each.what, "line": each.where, "step": each.step + 1} for each in checked.findings]
        steps_seen = [{"norm": ours, "one process": theirs, "rounding": rounding} for ours, theirs, rounding in checked.norms]
        print_json(
            {
                "script": script,
                "ranks": ranks,
                "findings": findings,
                "notes": checked.notes,
                "gradients": steps_seen,
                "collectives": checked.collectives,
                **({"recipe": recipe} if given.recipe else {}),
            }
        )
        raise typer.Exit(1 if findings or recipe else 0)
    for number, (ours, theirs, rounding) in enumerate(checked.norms, 1):
        away = abs(ours - theirs) / theirs if theirs else 0.0
        typer.echo(
            f"step {number}: gradient norm {ours:.7g} on {ranks} ranks, {theirs:.7g} in one process: {away:.1g} apart; rounding explains "
            f"{rounding:.1g} for each parameter"
        )
    for row in checked.collectives if given.collectives else ():
        axis = f" ({row['axis']})" if row["axis"] else ""
        typer.echo(
            f"{row['line']}: {row['calls']} {row['collective']} over {row['ranks']} ranks{axis}, {row['dtype']}, "
            f"{row['before']} to {row['after']}"
        )
    for note in checked.notes:
        typer.echo(f"note: {note}")
    for line in [*map(str, checked.findings), *recipe] or [f"{script}: nothing was found on {ranks} ranks."]:
        typer.echo(line)
    raise typer.Exit(1 if checked.findings or recipe else 0)


def _function(name: str) -> Callable[[], Any]:
    """`file.py:function` or `package.module:function`, loaded when it is called. Raises WorkloadError where there is none."""
    place, _, function = name.rpartition(":")
    path = Path(place)
    if not place:
        raise WorkloadError(f"--twin {name} names no function: give file.py:function or package.module:function.")
    if path.suffix == ".py":
        defined = ast.parse(path.read_bytes()).body if path.is_file() else []
        if not any(isinstance(each, ast.FunctionDef) and each.name == function for each in defined):
            raise WorkloadError(f"--twin {name} names no function: {place} has none of that name.")
        return lambda: runpy.run_path(place, run_name=path.stem)[function]()
    try:
        found = getattr(importlib.import_module(place), function, None)
    except ImportError as problem:
        raise WorkloadError(f"--twin {name} cannot be imported: {problem}.") from None
    if not callable(found):
        raise WorkloadError(f"--twin {name} names no function: {place} has none of that name.")
    return found  # type: ignore[no-any-return]
