"""The frames of the user's code that has called us.

Warnings point to the user's line, and checkpoints read the variables of the training function from its frames.
"""

from __future__ import annotations

import dis
import gc
import inspect
import sys
import warnings
from collections.abc import Iterator
from itertools import chain, count, islice
from types import FrameType, GeneratorType
from typing import Any

from polyrhythm.errors import CheckpointError

_THEIRS = ("polyrhythm.workloads", "polyrhythm_reproductions", "polyrhythm.integrations")
"""Parts of the package that are training functions, or run those of others."""


def is_ours(module: str) -> bool:
    """True for a module of the package that is no training function itself, and no integration that runs others'."""
    return module == "polyrhythm" or (module.startswith("polyrhythm.") and not module.startswith(_THEIRS))


def users() -> Iterator[FrameType]:
    """The frames of the training function and of what it has called, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        own = is_ours(name)
        if own and frame.f_code.co_name == "program":
            return
        if not own and not name.startswith(("torch.", "contextlib")):
            yield frame
            if frame.f_code.co_name == "<module>":
                return
        frame = frame.f_back


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that has called us, however many calls of ours, of hooks and of torch lie in between."""
    frame = next(users(), None)
    if frame is None:
        warnings.warn(text, category, stacklevel=2)
        return
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__"), registry)


def iterated_by_for() -> bool:
    """True if the user's code requests the present item by a `for`, and not by `next()` or another call."""
    for frame in users():
        if not frame.f_code.co_flags & inspect.CO_GENERATOR:
            return frame.f_code.co_code[frame.f_lasti] == _FOR_ITER
    return True


def refuse_counters(batches: Any) -> None:
    """Raise CheckpointError where a pass that continues in its middle is iterated through an object that counts from its beginning."""
    asking = list(_generators())
    wrapped = [each for each in gc.get_objects() if type(each) is GeneratorType and each.gi_frame in asking] if asking else []
    for inner in (batches, *wrapped):
        for holder in _holders(inner, 3):
            remedy = _COUNTING.get(type(holder))
            if remedy is not None:
                raise CheckpointError(
                    f"{_called(holder)} counts the batches of a pass from its beginning, and a resumed run continues in the midst of it: "
                    f"{remedy} The same checkpoint can then be resumed."
                )


def _holders(held: Any, depth: int) -> Iterator[Any]:
    """The counting objects that hold an iterator, themselves or through others."""
    for each in gc.get_referrers(held):
        if type(each) in _COUNTING:
            yield each
        elif depth and (type(each) in (map, filter, chain, zip) or type(each) is tuple):
            if type(each) is tuple and any(type(other) in (_RANGES, count) for other in each):
                yield next(other for other in each if type(other) in (_RANGES, count))
            yield from _holders(each, depth - 1)


def _generators() -> Iterator[FrameType]:
    """The frames of the user's generators through which a batch is requested."""
    for frame in users():
        if not frame.f_code.co_flags & inspect.CO_GENERATOR:
            return
        yield frame


def _called(holder: Any) -> str:
    return "zip() with a range" if type(holder) in (_RANGES, count) else f"{type(holder).__name__}(...)"


_RANGES = type(iter(range(0)))
_ZIPPED = "write worker.batches(..., steps=n) for n batches, or number them with worker.enumerate(batches)."
_COUNTING: dict[type, str] = {
    enumerate: "write worker.enumerate(batches).",
    islice: "write worker.batches(..., steps=n).",
    _RANGES: _ZIPPED,
    count: _ZIPPED,
}
_FOR_ITER = dis.opmap["FOR_ITER"]
