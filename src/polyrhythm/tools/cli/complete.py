"""Shell completion: names that are read without importing torch, so that completion is quick. The options and arguments of commands name
these functions, which the shell calls with the word typed so far.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from typer import Context

_PACKAGE = Path(__file__).resolve().parents[2]


@cache
def _systems() -> dict[str, ast.FunctionDef]:
    """The functions of `polyrhythm.systems` that give a Strategy, found in its text, by the names of their systems."""
    files = sorted(path for path in (_PACKAGE / "systems").glob("*.py") if path.stem != "__init__")
    functions = (node for path in files for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef))
    return {node.name.replace("_", "-"): node for node in functions if isinstance(node.returns, ast.Name) and node.returns.id == "Strategy"}


@cache
def system_names() -> tuple[str, ...]:
    """The names of the published systems, read from the text of the package."""
    return tuple(sorted(_systems()))


def option_names(system: str) -> dict[str, tuple[str, ...]]:
    """The options of a system, each with its other names: the keywords of the decorator `system`. Empty for an unknown system."""
    if system not in _systems():
        return {}
    function = _systems()[system]
    others = [
        (keyword.arg or "", keyword.value.value)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
        if isinstance(keyword.value, ast.Constant)
    ]
    return {each.arg: tuple(other for other, own in others if own == each.arg) for each in function.args.args}


@cache
def workload_names() -> tuple[str, ...]:
    """The bundled workloads: the names of the classes of `polyrhythm.workloads` and its packages, found in their text."""
    return tuple(sorted(name for path in (_PACKAGE / "workloads").rglob("*.py") for name in _class_names(path)))


def _class_names(path: Path) -> Iterator[str]:
    """The value of `name: ClassVar[str] = "..."` in each class of the file."""
    for kind in ast.parse(path.read_text("utf-8")).body:
        for line in kind.body if isinstance(kind, ast.ClassDef) else ():
            named = isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id == "name"
            if named and isinstance(line, ast.AnnAssign) and isinstance(line.value, ast.Constant):
                yield str(line.value.value)


def complete_systems(incomplete: str) -> list[str]:
    """Names of systems; behind a comma, those that are not there yet."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in system_names() if name.startswith(last) and name not in taken]


def complete_options(context: Context, incomplete: str) -> list[tuple[str, str]]:
    """The options of the systems that were typed before, as KEY=; where the text begins a name in a paper alone, that name."""
    typed = context.params.get("system") or context.params.get("systems") or ""
    found: dict[str, tuple[str, ...]] = {}
    for system in system_names() if typed in ("", "all") else typed.split(","):
        for option, others in option_names(system).items():
            found[option] = tuple(dict.fromkeys((*found.get(option, ()), *others)))
    canonical = [(f"{option}=", f"also {', '.join(found[option])}" if found[option] else "") for option in sorted(found)]
    of_papers = [(f"{other}=", f"the paper's name of {option}") for option in sorted(found) for other in found[option]]
    chosen = [each for each in canonical if each[0].startswith(incomplete)]
    return chosen or [each for each in of_papers if each[0].startswith(incomplete)]


def complete_jobs(incomplete: str) -> list[str]:
    """Bundled workloads, and the Python files and folders that begin so."""
    before, slash, _ = incomplete.rpartition("/")
    folder = Path(before + slash)  # its text stays as it was typed: a path would lose the ./ by which the shell compares
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [f"{before}{slash}{path.name}{'/' * path.is_dir()}" for path in there if path.suffix == ".py" or path.is_dir()]
    return [name for name in (*workload_names(), *files) if name.startswith(incomplete)]


def complete_networks(incomplete: str) -> list[str]:
    """The simulator's networks that begin with the typed text."""
    from polyrhythm.hardware.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def complete_devices(incomplete: str) -> list[str]:
    """The devices of real processes and of the simulator."""
    from polyrhythm.hardware.devices import DEVICES

    return [name for name in ("cpu", "cuda", *DEVICES) if name.startswith(incomplete)]


def complete_runtimes(incomplete: str) -> list[str]:
    """The runtimes that begin with the typed text."""
    from polyrhythm.launchers import ENGINES

    return [name for name in ("processes", "simulator", *ENGINES) if name.startswith(incomplete)]


def complete_launchers(incomplete: str) -> list[str]:
    """The engines that start workers without a driver."""
    from polyrhythm.launchers import LAUNCHED

    return [name for name in LAUNCHED if name.startswith(incomplete)]


def complete_studies(incomplete: str) -> list[str]:
    """The shipped studies that begin with `incomplete`."""
    names = sorted(path.stem for path in (_PACKAGE / "tools" / "studies" / "grids").glob("*.toml"))
    return [name for name in names if name.startswith(incomplete)]
