"""The user's own files and modules: run once to get the training function that they define."""

from __future__ import annotations

import argparse
import importlib
import linecache
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

import cloudpickle

from polyrhythm.errors import PolyrhythmError, ScriptEnded, WorkloadError, did_you_mean, nearest

_importing: ContextVar[bool] = ContextVar("importing", default=False)


@contextmanager
def arguments(script: str, given: Sequence[str]) -> Iterator[None]:
    """Let `script` find its own command line in sys.argv, while it is imported and while it trains, also in the processes of a run."""
    before = sys.argv
    sys.argv = [script, *given]
    try:
        yield
    finally:
        sys.argv = before


def refuse_while_imported(call: str) -> None:
    """Refuse `call` ("pr.run") at the top of a JOB file: importing the file would train, and the command would train again."""
    if _importing.get():
        raise WorkloadError(
            f'{call} is called while the file is imported, which would train twice: put the call under if __name__ == "__main__":, '
            "or start the file with python instead"
        )


def from_file(path: Path, shown: str) -> ModuleType:
    """Run the file as Python runs a script, its own folder first on the path, but not as `__main__`.

    Raises WorkloadError in plain terms for a file that cannot be run, and ScriptEnded where it refused its arguments itself.
    """
    module = ModuleType(f"polyrhythm_job_{path.stem}")
    module.__file__ = str(path)
    linecache.checkcache(str(path))
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    previous = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module  # dataclasses look their module up by name
    try:
        with _as_import():
            exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        _forget(module.__name__, previous)
        raise _refusal(error, str(path), shown) from error
    # Other processes cannot import it by name, so its functions travel whole.
    cloudpickle.register_pickle_by_value(module)
    return module


def from_name(name: str) -> ModuleType:
    """The module of that dotted name, looked for in the working directory first, as `python -m` does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with _as_import():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise WorkloadError(
                f"There is no module {error.name!r} in the working directory or installed: give a module that Python can import, "
                "or a file by its path."
            ) from None
        raise _refusal(error, _file_of(name), name) from error
    except (Exception, SystemExit) as error:
        raise _refusal(error, _file_of(name), name) from error


def missing(path: Path, workloads: Sequence[str]) -> str:
    """The hint for a file that does not exist."""
    if path.is_dir():
        return f"{path} is a folder: give the Python file in it that defines train(worker)."
    siblings = [file.name for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = [str(path.parent / name) for name in nearest(path.name, siblings)]
    hint = did_you_mean(near) or f"The bundled workloads are: {', '.join(sorted(workloads))}."
    return f"There is no file {path}. {hint}"


@contextmanager
def _as_import() -> Iterator[None]:
    token = _importing.set(True)
    try:
        yield
    finally:
        _importing.reset(token)


def _forget(name: str, previous: ModuleType | None) -> None:
    del sys.modules[name]
    if previous is not None:
        sys.modules[name] = previous


def _file_of(name: str) -> str:
    """The file of a module that failed, as its frames have it."""
    return os.path.join(os.getcwd(), *name.split(".")) + ".py"


def _within_argparse(error: BaseException) -> bool:
    """True if argparse ended the script: by the names of modules, as the path in a compiled file need not be the one it was found by."""
    return any(frame.f_globals.get("__name__") == argparse.__name__ for frame, _ in traceback.walk_tb(error.__traceback__))


def _refusal(error: BaseException, file: str, shown: str) -> PolyrhythmError:
    """The error that says what went wrong in the user's file, with the last of their own lines that was running."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SystemExit) and isinstance(error.code, int) and _within_argparse(error):
        return ScriptEnded(f"{shown} ended with code {error.code} at its arguments, and printed why.", error.code)
    message = " ".join(traceback.format_exception_only(error)[-1].split())
    if isinstance(error, SyntaxError) and error.lineno is not None:
        where = shown if error.filename == file else error.filename
        line = (error.text or "").strip()
        return WorkloadError(
            f"{where}, line {error.lineno}: {message}" + (f" in: {line}" if line else "") + ". Correct that line and run again."
        )
    theirs = [frame for frame in frames if frame.filename == file]
    if not theirs:
        return WorkloadError(f"{shown} cannot be read: {message}.")
    where = f"{shown}, line {theirs[-1].lineno}"
    if isinstance(error, PolyrhythmError):
        return WorkloadError(f"{where}: {error} (in: {theirs[-1].line}).")
    return WorkloadError(f"{where}, failed while the file was imported: {message} (in: {theirs[-1].line}). Correct it and run again.")
