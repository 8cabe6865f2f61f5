"""The loading of JOBs: bundled workloads by name, or a function such as `train(worker)` of a Python file or module.

The command line and `polyrhythm.load_workload` call it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from polyrhythm.core.job_files.script import from_file, from_name, missing
from polyrhythm.core.job_files.settings import Train, with_settings
from polyrhythm.errors import WorkloadError, nearest, unknown
from polyrhythm.workloads.registry import WORKLOADS, find

_USUAL = "train"


def load_workload(job: str, settings: Mapping[str, Any] | None = None) -> Train:
    """The training function of `job`, with its settings overridden by `settings`, such as {"epochs": 5} or, as text, {"epochs": "5"}.

    `job` is a bundled workload's name, "train.py", "train.py:function" or "package.module:function"; settings are the keyword parameters
    of the function, or the fields of the dataclass that it is an object of.
    Raises UnknownNameError for a name that is neither a workload nor a file, and for a setting that the job does not have;
    WorkloadError for a file that cannot be used and for a value of the wrong type.
    """
    return with_settings(_train_of(job), job, settings or {})


def value_of(job: str, named: str) -> object:
    """The value that is `named` in the file or module of `job`, or "FILE.py:NAME" in another. Raises WorkloadError where there is none."""
    place, name = named.rpartition(":")[::2] if ":" in named else (_parted(job)[0], named)
    if place in WORKLOADS:
        raise WorkloadError(f"{place} is a bundled workload and has no {name} of yours: name it with its file, FILE.py:{name}.")
    return _found(_opened(Path(place)) if _is_file(place) else from_name(place), name, place)


def is_bundled(job: str) -> bool:
    """True if `job` names a workload of the package, and not a file or module of the user's."""
    return job in WORKLOADS


def file_of(job: str) -> Path | None:
    """The file that defines `job`, if it is given by its file; otherwise None."""
    place, _ = _parted(job)
    return Path(place) if _is_file(place) else None


def _train_of(job: str) -> Train:
    if is_bundled(job):
        bundled: Train = find(job)()
        return bundled
    place, name = _parted(job)
    if _is_file(place):
        return _checked(_found(_opened(Path(place)), name, place), name, place)
    if place in WORKLOADS:
        raise WorkloadError(f"{place} is a bundled workload and has no function {name!r} to choose: write {place} alone.")
    if ":" in job:
        return _checked(_found(from_name(place), name, place), name, place)
    raise WorkloadError(f"{unknown('workload', job, WORKLOADS)} A file is given by its path, for example train.py.")


def _parted(job: str) -> tuple[str, str]:
    """The file or module of the function, and its name: the part after the last colon, if that can be a name."""
    place, colon, name = job.rpartition(":")
    return (place, name) if colon and place and name.isidentifier() and not Path(job).exists() else (job, _USUAL)


def _is_file(place: str) -> bool:
    if place in WORKLOADS:
        return False
    return os.sep in place or "/" in place or place.endswith((".py", ".ipynb")) or Path(place).exists()


def refuse_absent(job: str) -> None:
    """Raise WorkloadError for the JOB of a file that is not there, before others are to load it; nothing is imported."""
    place, _ = _parted(job)
    if _is_file(place):
        _there(Path(place))


def _there(path: Path) -> None:
    """Raise WorkloadError for a file that is not there."""
    if not path.is_file():
        raise WorkloadError(missing(path, list(WORKLOADS)))


def _opened(path: Path) -> ModuleType:
    _there(path)
    if path.suffix != ".py":
        raise WorkloadError(f"{path} is not a Python file: give a file that ends in .py and defines train(worker).")
    return from_file(path.resolve(), str(path))


def _found(module: ModuleType, name: str, place: str) -> object:
    found = getattr(module, name, None)
    if found is not None:
        return found
    near = nearest(name, [each for each in vars(module) if not each.startswith("_")])
    hint = f" It defines {' and '.join(map(repr, near))}: name it with {' or '.join(f'{place}:{each}' for each in near)}." if near else ""
    if name != _USUAL:
        raise WorkloadError(f"{place} defines no {name}.{hint or ' Name a function that it defines.'}")
    raise WorkloadError(
        f"{place} defines no train: put the training loop into a function train(worker), or name yours with {place}:NAME.{hint}"
    )


def _checked(train: object, name: str, place: str) -> Train:
    if inspect.isclass(train):
        raise WorkloadError(
            f"In {place} {name} is a class: make it an object of that class, {name} = {train.__name__}(...), or a function."
        )
    if not callable(train):
        raise WorkloadError(f"In {place} {name} is a {type(train).__name__}, which is not callable: make it a function {name}(worker).")
    body = train if inspect.isroutine(train) else type(train).__call__
    if inspect.iscoroutinefunction(body) or inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise WorkloadError(
            f"In {place} {name} is async or a generator, whose body a plain call does not run: write def {name}(worker) without yield."
        )
    try:
        inspect.signature(train).bind(None)
    except TypeError:
        raise WorkloadError(
            f"In {place} {name} takes {inspect.signature(train)}: it is called with one argument, as {name}(worker). "
            "Give the other parameters defaults: they are then settings."
        ) from None
    except ValueError:
        pass  # a builtin without a signature: a call will show whether it fits
    return train
