"""The objects inside callables and iterators that a step may change.

`contents` describes variables by them, `renewal` puts them back, and `own_variables` skips proxies.
"""

from __future__ import annotations

import gc
import io
import itertools
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import BuiltinMethodType, CellType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, NamedTuple

from polyrhythm.core.torch_private.one_process import batches_given
from polyrhythm.core.training.callers import is_ours, users

PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
"""The types of proxies of an object, which may have been deleted: they cannot be inspected."""


class Position(NamedTuple):
    """The position of an iterator, given by a `mark` and `parts` together; not `known` for an iterator that does not show it."""

    mark: int
    parts: Sequence[Any]
    known: bool = True


def of_callable(value: Any) -> list[Any] | None:
    """The objects behind a bound method, a partial or a function that another function has made; None for any other value."""
    if isinstance(value, (MethodType, BuiltinMethodType)):
        return None if value.__self__ is None or isinstance(value.__self__, (ModuleType, type)) else [value.__self__]
    if type(value) is partial:
        return [value.func, *value.args, *value.keywords.values()]
    cells = cells_of(value)
    return [_content(each) for each in cells] if cells else None


def cells_of(value: Any) -> Sequence[CellType]:
    """The closure cells of a function of the user's, if the function that made it has returned; before that they are its variables."""
    if not isinstance(value, FunctionType) or not value.__closure__ or is_ours(str(value.__module__)):
        return ()
    maker = value.__qualname__.rpartition(".<locals>.")[0]
    return () if any(frame.f_code.co_qualname == maker for frame in users()) else value.__closure__


def is_iterator(value: Any) -> bool:
    """True for an iterator that is neither a file nor one of the library's."""
    kind: Any = type(value)
    return hasattr(kind, "__next__") and not isinstance(value, io.IOBase) and not is_ours(str(kind.__module__))


def position(value: Any) -> Position | None:
    """The position of an iterator; None for one over an iterator of the library's, such as batches, which the library restores."""
    if any(map(_is_librarys, beneath(value))):
        return None
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        return Position(-1, ()) if frame is None else Position(frame.f_lasti, list(frame.f_locals.values()))
    if type(value) is itertools.count:
        return Position(0, [repr(value)])
    if type(value).__module__ in ("builtins", "itertools"):
        return _reduced(value)
    yielded = batches_given(value)
    return Position(0, (), known=False) if yielded is None else Position(yielded, ())


def beneath(iterator: Any, depth: int = 4) -> Iterator[Any]:
    """An iterator, and the iterators that it draws from."""
    yield iterator
    if depth:
        for each in gc.get_referents(iterator):
            if type(each) not in PROXIES and hasattr(type(each), "__next__"):
                yield from beneath(each, depth - 1)


def _is_librarys(iterator: Any) -> bool:
    frame = iterator.gi_frame if isinstance(iterator, GeneratorType) else None
    return is_ours(str(type(iterator).__module__)) or (frame is not None and is_ours(str(frame.f_globals.get("__name__"))))


def _reduced(value: Any) -> Position:
    """The position of a built-in iterator from the arguments of `__reduce__`, which not every version of Python has."""
    reduce: Callable[[], Any] = value.__reduce__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = reduce()
    except TypeError:
        return Position(0, (), known=False)
    return Position(0, made[1:]) if isinstance(made, tuple) else Position(0, (), known=False)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has no value yet
        return None
