"""events.jsonl: one event a line, also read from a damaged file.

`Record` writes lines as events happen, and `load` reads them; `encoded` makes the JSON of run.json too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.core.kernel.events import AnyEvent, Faulted
from polyrhythm.core.units import show_bytes

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What a decoder raises for text that is damaged: also wrong UTF-8, and brackets without end."""

_ACTOR = re.compile(r"(worker|server)/[0-9]{1,9}")
_MOST = 2.0**63
_encoder = msgspec.json.Encoder()


@dataclass(slots=True)
class EventLines:
    """The events of a file, and a sentence for each way in which it is damaged."""

    events: list[AnyEvent] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def line(event: AnyEvent) -> bytes:
    """`event` as its line; characters that no file can hold are written as escapes."""
    return encoded(event) + b"\n"


def encoded(value: Any) -> bytes:
    """`value` as JSON. Lone surrogates, which stand for undecodable bytes in names of files, become escapes."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_sayable(msgspec.to_builtins(value)))


def read(path: Path, growing: bool = False) -> EventLines:
    """The events in the file at `path`. A damaged end is cut off, which is no damage in a file that is `growing`. Raises OSError."""
    whole = EventLines()
    decoder = msgspec.json.Decoder(AnyEvent)
    wrong = tail = size = 0  # damaged lines before the last good one; those after it, and their bytes
    lines = path.read_bytes().split(b"\n")
    if not lines[-1]:
        lines.pop()
    for text in lines:
        event = _event(decoder, text)
        if event is None:
            tail, size = tail + 1, size + len(text)
            continue
        whole.events.append(event)
        wrong, tail, size = wrong + tail, 0, 0
    if wrong:
        whole.remarks.append(f"{wrong:,} of the {len(lines):,} lines of {path.name} are damaged and left out.")
    if tail and not growing:
        what = f"last {tail:,} lines" if tail > 1 else "last line"
        whole.remarks.append(f"The end of {path.name} is damaged: its {what} ({show_bytes(size)}) {'is' if tail == 1 else 'are'} left out.")
    return whole


def _event(decoder: msgspec.json.Decoder[AnyEvent], text: bytes) -> AnyEvent | None:
    try:
        event = decoder.decode(text)
    except UNREADABLE:
        return None
    return event if _is_possible(event) else None


def _is_possible(event: AnyEvent) -> bool:
    """True if a run can have written this event: a damaged digit may still be a number."""
    named = isinstance(event, Faulted) or _ACTOR.fullmatch(event.actor) is not None
    return named and all(0 <= value < _MOST for value in msgspec.structs.astuple(event) if isinstance(value, int | float))


def _sayable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_sayable(name): _sayable(each) for name, each in value.items()}
        case list():
            return [_sayable(each) for each in value]
    return value
