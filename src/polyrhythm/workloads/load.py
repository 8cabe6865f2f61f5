"""JOBs: the name of a bundled workload, or a Python file with `train(worker)`; and settings given as text."""

from __future__ import annotations

import difflib
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import cloudpickle

from polyrhythm.errors import WorkloadError, unknown
from polyrhythm.workloads.registry import WORKLOADS, find
from polyrhythm.workloads.worker import Worker

Train = Callable[[Worker], object]

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def load(job: str, settings: Mapping[str, str]) -> Train:
    """The training function of `job`, with the fields of its dataclass overridden by `settings`, such as {"epochs": "5"}.

    Raises UnknownNameError for a name that is neither a workload nor a file, and for a setting that the job does not have;
    WorkloadError for a file that cannot be used and for a value of the wrong type.
    """
    if job in WORKLOADS:
        train: Train = find(job)()
    elif os.sep in job or "/" in job or job.endswith((".py", ".ipynb")) or Path(job).exists():
        train = _train_of(Path(job))
    else:
        raise WorkloadError(f"{unknown('workload', job, WORKLOADS)} A file is given by its path, for example train.py.")
    return _with_settings(train, job, settings)


def _train_of(path: Path) -> Train:
    if not path.is_file():
        raise WorkloadError(_missing(path))
    if path.suffix != ".py":
        raise WorkloadError(f"{path} is not a Python file: give a file that ends in .py and defines train(worker).")
    module = _imported(path.resolve(), str(path))
    train = getattr(module, "train", None)
    if train is None:
        near = difflib.get_close_matches("train", [name for name in vars(module) if not name.startswith("_")], n=1)
        hint = f" It defines {near[0]!r}: rename that." if near else ""
        raise WorkloadError(f"{path} defines no train: put the training loop into a function train(worker).{hint}")
    return _checked(train, path)


def _missing(path: Path) -> str:
    if path.is_dir():
        return f"{path} is a folder: give the Python file in it that defines train(worker)."
    beside = [file.name for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    hint = f"Did you mean {str(path.parent / near[0])!r}?" if near else f"The bundled workloads are: {', '.join(sorted(WORKLOADS))}."
    return f"There is no file {path}. {hint}"


def _imported(path: Path, shown: str) -> ModuleType:
    """Run the file as Python runs a script, its own folder first on the path, but not as `__main__`."""
    module = ModuleType(f"polyrhythm_job_{path.stem}")
    module.__file__ = str(path)
    linecache.checkcache(str(path))
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    previous = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # dataclasses look their module up by name
    try:
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        _forget(module.__name__, previous)
        raise WorkloadError(_why(error, path, shown)) from error
    # Other processes cannot import it by name, so its functions travel whole.
    cloudpickle.register_pickle_by_value(module)
    return module


def _forget(name: str, previous: ModuleType | None) -> None:
    del sys.modules[name]
    if previous is not None:
        sys.modules[name] = previous


def _why(error: BaseException, path: Path, shown: str) -> str:
    """What went wrong in the user's file, with the last of their own lines that was running."""
    said = " ".join(traceback.format_exception_only(error)[-1].split())
    if isinstance(error, SyntaxError) and error.lineno is not None:
        where = shown if error.filename == str(path) else error.filename
        line = (error.text or "").strip()
        return f"{where}, line {error.lineno}: {said}" + (f" in: {line}" if line else "") + ". Correct that line and run again."
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if not theirs:
        return f"{shown} cannot be read: {said}."
    return (
        f"{shown}, line {theirs[-1].lineno}, failed while the file was imported: {said} (in: {theirs[-1].line}). Correct it and run again."
    )


def _checked(train: object, path: Path) -> Train:
    if inspect.isclass(train):
        raise WorkloadError(f"In {path} train is a class: make it an object of that class, train = {train.__name__}(...), or a function.")
    if not callable(train):
        raise WorkloadError(f"In {path} train is a {type(train).__name__}, not something to call: make it a function train(worker).")
    body = train if inspect.isroutine(train) else type(train).__call__
    if inspect.iscoroutinefunction(body) or inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise WorkloadError(
            f"In {path} train is async or a generator, whose body a plain call does not run: write def train(worker) without yield."
        )
    try:
        inspect.signature(train).bind(None)
    except TypeError:
        raise WorkloadError(
            f"In {path} train takes {inspect.signature(train)}: it is called with one argument, as train(worker)."
        ) from None
    except ValueError:
        pass  # a builtin that does not tell its parameters: calling it will
    return train


def _with_settings(train: Train, job: str, settings: Mapping[str, str]) -> Train:
    if not settings:
        return train
    if not is_dataclass(train) or isinstance(train, type):
        raise WorkloadError(
            f"{job} takes no settings, but {', '.join(settings)} was given: change the file itself, or make train an object of a dataclass "
            "whose fields are the settings."
        )
    kinds = get_type_hints(type(train))
    names = [field.name for field in fields(train) if field.init]
    changes: dict[str, Any] = {}
    for name, text in settings.items():
        if name not in names:
            raise unknown(f"setting of {job}", name, names)
        changes[name] = _converted(job, name, text, kinds[name])
    changed: Train = replace(train, **changes)
    return changed


def _converted(job: str, name: str, text: str, kind: type) -> object:
    if kind is str:
        return text
    try:
        if kind is bool:
            return _TRUTH[text.strip().lower()]
        if kind in (int, float):
            return kind(text)
    except (ValueError, KeyError):
        wanted = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise WorkloadError(f"{job} cannot take {name}={text}: {name} must be {wanted}.") from None
    raise WorkloadError(
        f"{job} has the setting {name}, but it is not a number, text or true/false, so it cannot be given as text: change the file."
    )
