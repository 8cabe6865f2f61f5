"""KEY=VALUE as typed text, and the values of options of systems. Commands read `--set`, `--option` and `--engine` with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyrhythm.core.job_files.values import read, wanted
from polyrhythm.errors import CompositionError


def pairs(texts: Sequence[str], flag: str) -> dict[str, str]:
    """The KEY=VALUEs of `flag` by key; the last one counts where a key is given twice."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise CompositionError(f"{flag} was given {text!r}: write NAME=VALUE without spaces, such as epochs=5.")
        found[key.strip()] = value.strip()
    return found


def refuse_without_system(options: Mapping[str, str], flag: str) -> None:
    """Raises CompositionError for `options` where no system was given; `flag` gives one."""
    if options:
        raise CompositionError(f"--option {min(options)} is an option of a system, and none was given: give {flag}.")


def convert(owner: str, name: str, text: str, kind: Any) -> Any:
    """`text` as a value of the annotation `kind`: a number, text, true or false, none, or a union of those."""
    description = wanted(kind)
    if description is None:
        raise CompositionError(f"{owner} has the option {name}, but it cannot be given as text: compose it in Python instead.")
    try:
        return read(text, kind)
    except ValueError:
        raise CompositionError(f"{owner} cannot take {name}={text}: {name} must be {description}.") from None
