"""Plain values as bytes, and back: of the same types, with every bit."""

from __future__ import annotations

from typing import Any

import msgspec

from polyrhythm.errors import WorkloadError

_TUPLE = 1
"""The code of msgpack's extension for tuples, which it has no type for."""


def encoded(value: object) -> bytes:
    """`value` as msgpack. Raises WorkloadError for a value that would be changed by it."""
    try:
        data = msgspec.msgpack.encode(_marked(value))
        kept = _same(decoded(data), value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as problem:
        raise _refusal(value) from problem
    if not kept:
        raise _refusal(value)
    return data


def decoded(data: bytes) -> Any:
    """The value that `encoded` was given, from its bytes."""
    return msgspec.msgpack.decode(data, ext_hook=_unmarked)


def _marked(value: Any) -> Any:
    if type(value) is tuple:
        return msgspec.msgpack.Ext(_TUPLE, msgspec.msgpack.encode([_marked(part) for part in value]))
    if type(value) is list:
        return [_marked(part) for part in value]
    if type(value) is dict:
        return {_marked(key): _marked(part) for key, part in value.items()}
    return value


def _unmarked(code: int, data: memoryview) -> Any:
    return tuple(decoded(bytes(data))) if code == _TUPLE else msgspec.msgpack.Ext(code, bytes(data))


def _same(a: Any, b: Any) -> bool:
    """True if the two are equal and of the same types throughout; NaN is equal to itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(map(_same, a.items(), b.items()))
    return bool(a == b or (a != a and b != b))


def _refusal(value: object) -> WorkloadError:
    return WorkloadError(
        f"worker.broadcast got a value of type {type(value).__name__}, which cannot be sent without changing it: give "
        "a tensor, or numbers, text, bytes, None, and lists, tuples and dicts of them."
    )
