"""Faults as typed text: `crash worker/1 step 20`. `--fault` gives one, `--faults` a file with one a line.

    KIND [WORD ...] [NAME WORD] ...

KIND is a class of `hardware` in words with hyphens. The first words are its settings in their order; others have their names, with
hyphens. The duration may be called `for`. Names are joined by commas, and the sides of a partition by spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from polyrhythm.core.typed_files import unreadable
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.faults import SOURCES, FaultSource
from polyrhythm.tools.cli.pairs import convert


def _hyphened(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().replace("_", "-")


KINDS: dict[str, Any] = {_hyphened(kind.__name__): kind for kind in SOURCES}
_WORDS = {"for": "duration"}


def parse(text: str) -> FaultSource:
    """The fault that `text` means. Raises UnknownNameError for a kind or a setting that does not exist, else CompositionError."""
    kind, *words = text.split() or [""]
    if kind not in KINDS:
        raise unknown("fault", kind, KINDS)
    settings = {_hyphened(field.name): field.name for field in fields(KINDS[kind])}
    names = settings | {word: name for word, name in _WORDS.items() if name in settings}
    given: dict[str, list[str]] = {}
    order = list(settings.values())
    while words and words[0] not in names and order:
        name = order.pop(0)
        given[name] = [words.pop(0)]
        while name == "sides" and words and words[0] not in names:
            given[name].append(words.pop(0))
    while words:
        word = words.pop(0)
        if word not in names:
            raise unknown(f"setting of {kind}", word, names)
        if not words:
            raise CompositionError(f"The fault {text!r} ends after {word!r}: give a value after it.")
        given[names[word]] = [words.pop(0)]
    for field in fields(KINDS[kind]):
        if field.default is MISSING and field.name not in given:
            raise CompositionError(f"The fault {text!r} lacks its {_hyphened(field.name)}: write such as {_EXAMPLES.get(kind, kind)!r}.")
    hints = get_type_hints(KINDS[kind])
    fault: FaultSource = KINDS[kind](**{name: _value(kind, name, value, hints[name]) for name, value in given.items()})
    return fault


def faults(texts: Sequence[str], file: Path | None) -> tuple[FaultSource, ...]:
    """The faults of all `texts`, and then of the `file`, whose empty lines and those that begin with "#" are skipped."""
    lines: list[str] = []
    if file is not None:
        try:
            lines = file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise unreadable("file of --faults", file, problem, "Give a text file with a fault in each line.") from None
    return tuple(parse(text) for text in (*texts, *(line for line in lines if line.strip() and not line.strip().startswith("#"))))


_EXAMPLES = {
    "crash": "crash worker/1 step 20",
    "segfault": "segfault worker/1 step 20",
    "exit": "exit worker/1 status 3 step 20",
    "stall": "stall worker/1 at 3 for 2",
    "hold-gil": "hold-gil worker/1 at 3 for 2",
    "slow-disk": "slow-disk worker/1 0.5 at 3 for 60",
    "leave": "leave worker/1 at 3 notice 30",
    "disconnect": "disconnect worker/0 worker/1 at 3 for 2",
    "partition": "partition worker/0,worker/1 worker/2 at 3 for 2",
    "drop": "drop 0.01 between worker/0,worker/1",
    "random-cuts": "random-cuts worker/0 worker/1 rate-per-hour 6 for 2",
    "preemptions": "preemptions 0.5 notice 30 back-after 300",
    "trace": "trace spot-bursty speed 60",
}


def _value(kind: str, name: str, words: list[str], hint: Any) -> Any:
    if name == "sides":
        return tuple(tuple(word.split(",")) for word in words)
    if name == "between":
        return tuple(words[0].split(","))
    if name == "path":
        return words[0]
    return convert(kind, _hyphened(name), words[0], hint)
