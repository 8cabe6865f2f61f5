"""The settings of a training function: its parameters after the worker, or the fields of the dataclass that it is an object of.

The command line, the planner and `workloads.load` list them and give them values here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, cast, get_type_hints

from polyrhythm.core.job_files.values import ANYTHING, read, wanted
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.errors import WorkloadError, unknown

Train = Callable[[WorkloadWorker], object]


@dataclass(frozen=True, slots=True)
class Setting:
    """The type of a setting, as an annotation, and its default."""

    kind: Any
    default: Any


@dataclass(frozen=True, slots=True, repr=False)
class Configured:
    """A training function with values for some of its keyword parameters."""

    train: Callable[..., object]
    settings: tuple[tuple[str, Any], ...]

    def __call__(self, worker: WorkloadWorker) -> object:
        """Train once, as one of the workers."""
        return self.train(worker, **dict(self.settings))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.settings)
        return f"{getattr(self.train, '__qualname__', type(self.train).__qualname__)}({given})"


def settings_of(train: Train) -> dict[str, Setting]:
    """The settings of `train` by name, in the order in which it has them."""
    if is_dataclass(train):
        kinds = _hints(cast(Hashable, type(train)))
        return {field.name: Setting(kinds.get(field.name), getattr(train, field.name, MISSING)) for field in fields(train) if field.init}
    try:
        parameters = list(inspect.signature(train).parameters.values())[1:]
    except ValueError:  # a builtin without a signature
        return {}
    kinds = _hints(train if inspect.isroutine(train) else type(train).__call__)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {each.name: Setting(kinds.get(each.name, _kind(each.default)), each.default) for each in parameters if each.kind in named}


def with_settings(train: Train, job: str, given: Mapping[str, Any]) -> Train:
    """`train` with the settings `given`: text stands for a value of the setting's type, anything else for itself.

    Raises UnknownNameError for a setting that it does not have, and WorkloadError for text that is no such value.
    """
    if not given:
        return train
    known = settings_of(train)
    if not known:
        raise WorkloadError(
            f"{job} takes no settings, but {', '.join(given)} was given: give the training function keyword parameters with defaults, "
            "as in def train(worker, lr=0.1)."
        )
    changes = {}
    for name, value in given.items():
        if name not in known:
            raise unknown(f"setting of {job}", name, known)
        changes[name] = _converted(job, name, value, known[name].kind) if isinstance(value, str) else value
    if is_dataclass(train) and not isinstance(train, type):
        changed: Train = replace(train, **changes)
        return changed
    return Configured(train, tuple(sorted(changes.items())))


@lru_cache(maxsize=256)
def _hints(annotated: Hashable) -> dict[str, Any]:
    """Annotations as types; none where one of them cannot be looked up, since a default shows the type too."""
    try:
        return get_type_hints(cast(Any, annotated))
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}


def _kind(default: Any) -> Any:
    return ANYTHING if default is None else type(default)


def _converted(job: str, name: str, text: str, kind: Any) -> Any:
    description = wanted(kind)
    if description is None:
        raise WorkloadError(
            f"{job} has the setting {name}, but it is not a number, text or true/false, so it cannot be given here: change it in the file."
        )
    try:
        return read(text, kind)
    except ValueError:
        raise WorkloadError(f"{job} cannot take {name}={text}: {name} must be {description}.") from None
