"""Puts the content of a variable back into the objects that it holds, so that other references to them see it, for `own_state`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.training.own_state.contents import attribute
from polyrhythm.core.training.own_state.inner_parts import cells_of, of_callable
from polyrhythm.core.training.own_state.nodes import Node, numpy_of

_NOTHING: Any = object()
"""Stands for an object that is missing."""


def renewed(old: Any, node: Node, whole: bool = True) -> Any:
    """`old` itself, changed in place, if it can hold the content of the tree; else an object to replace it.

    Content that is not described stays as it is, so a caller compares afterwards. `whole` is set where `old` cannot be replaced.
    """
    return _KINDS.get(node["kind"], _unchanged)(old, node, whole)


def _unchanged(old: Any, node: Node, whole: bool) -> Any:
    return old


def _value(old: Any, node: Node, whole: bool) -> Any:
    return node["value"]


def _member(old: Any, node: Node, whole: bool) -> Any:
    return getattr(type(old), node["value"], old)


def _tensor(old: Any, node: Node, whole: bool) -> Any:
    value = node["value"]
    fits = isinstance(old, Tensor) and old.shape == value.shape and old.dtype == value.dtype and not old.is_inference()
    if fits and 0 not in old.stride() and (whole or node["in_place"]):
        with torch.no_grad():
            old.copy_(value)
        return old
    return value.to(old.device if isinstance(old, Tensor) else node["device"], copy=True).requires_grad_(node["learned"])


def _number(old: Any, node: Node, whole: bool) -> Any:
    return numpy_of(node)[()]


def _array(old: Any, node: Node, whole: bool) -> Any:
    value = numpy_of(node)
    if getattr(old, "shape", None) == value.shape and getattr(old, "dtype", None) == value.dtype and old.flags.writeable:
        old[...] = value
        return old
    return value


def _parts(old: Any, node: Node) -> list[Any]:
    before = list(old) if isinstance(old, (list, tuple, deque)) else []
    before += [_NOTHING] * (len(node["items"]) - len(before))
    parts = [renewed(each, part, False) for each, part in zip(before, node["items"], strict=False)]
    return [each for each in parts if each is not _NOTHING]


def _list(old: Any, node: Node, whole: bool) -> Any:
    parts = _parts(old, node)
    if not isinstance(old, list):
        return parts
    old[:] = parts
    return old


def _deque(old: Any, node: Node, whole: bool) -> Any:
    return _refilled(old, _parts(old, node))


def _refilled(old: Any, parts: Any) -> Any:
    """A deque or a set, or one of a class of the user's, with these in it."""
    if isinstance(old, (deque, set)):
        old.clear()
        old.extend(parts) if isinstance(old, deque) else old.update(parts)
    return old


def _tuple(old: Any, node: Node, whole: bool) -> Any:
    parts = _parts(old, node)
    if isinstance(old, tuple) and len(old) == len(parts) and all(a is b for a, b in zip(old, parts, strict=True)):
        return old
    make: Callable[[list[Any]], Any] = getattr(type(old), "_make", tuple)
    return make(parts)


def _set(old: Any, node: Node, whole: bool) -> Any:
    parts = {each["value"] for each in node["items"]}
    return _refilled(old, parts) if isinstance(old, set) else parts


def _values(old: Any, node: Node, whole: bool) -> Any:
    """Renew a container of nothing but plain values."""
    value, kind = node["value"], node["of"]
    if kind == "list" and isinstance(old, list):
        old[:] = value
    elif kind == "dict" and isinstance(old, dict):
        old.clear()
        old.update(value)
    elif kind in ("deque", "set") and isinstance(old, (deque, set)):
        _refilled(old, value)
    else:
        return _MADE[kind](value) if kind in _MADE else old
    return old


def _extended(old: Any, node: Node, whole: bool) -> Any:
    container, attributes = node["items"]
    return _object(renewed(old, container, whole), attributes, whole)


def _callable(old: Any, node: Node, whole: bool) -> Any:
    """Renew the objects that a callable changes: those behind it, and the variables of its closure."""
    cells = cells_of(old)
    for place, (before, part) in enumerate(zip(of_callable(old) or (), node["items"], strict=False)):
        after = renewed(before, part, not cells)
        if cells and after is not before:
            cells[place].cell_contents = after
    return old


def _dict(old: Any, node: Node, whole: bool) -> Any:
    before = dict(old) if isinstance(old, dict) else {}
    places = list(before)
    known = [key if part["kind"] == "opaque" else renewed(None, part, False) for key, part in _keyed(places, node["keys"])]
    items = [renewed(before.get(key, _NOTHING), part, False) for key, part in zip(known, node["items"], strict=True)]
    now = {key: each for key, each in zip(known, items, strict=True) if key is not _NOTHING and each is not _NOTHING}
    if not isinstance(old, dict):
        return now
    if places != known:
        old.clear()
    old.update(now)
    return old


def _keyed(places: list[Any], keys: list[Node]) -> list[tuple[Any, Node]]:
    """Nodes of keys, with the present keys: those that are not described, such as parameters, are identified by their place."""
    return [(places[k] if k < len(places) else _NOTHING, each) for k, each in enumerate(keys)]


def _object(old: Any, node: Node, whole: bool) -> Any:
    for key, part in zip(node["keys"], node["items"], strict=True):
        before = attribute(old, key["value"], _NOTHING)
        after = renewed(before, part, False)
        if after is not before and old is not _NOTHING and old is not None:
            object.__setattr__(old, key["value"], after)
    return old


def _modules(old: Any, node: Node, whole: bool) -> Any:
    there = dict(old.named_modules()) if isinstance(old, nn.Module) else {}
    for key, part in zip(node["keys"], node["items"], strict=True):
        if key["value"] in there:
            _object(there[key["value"]], part, whole)
    if isinstance(old, nn.Module):
        for name, parameter in old.named_parameters():
            if parameter.is_leaf and parameter.requires_grad != (name in node["value"]):
                parameter.requires_grad_(name in node["value"])
    return old


_KINDS: dict[str, Callable[[Any, Node, bool], Any]] = {
    "value": _value,
    "member": _member,
    "tensor": _tensor,
    "number": _number,
    "array": _array,
    "list": _list,
    "deque": _deque,
    "tuple": _tuple,
    "set": _set,
    "dict": _dict,
    "values": _values,
    "extended": _extended,
    "object": _object,
    "modules": _modules,
    "callable": _callable,
}
_MADE: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "dict": dict, "deque": deque, "set": set}
