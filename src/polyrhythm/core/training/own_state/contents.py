"""The content of a variable, as a tree that a checkpoint can hold, for `own_state`."""

from __future__ import annotations

import argparse
import sys
import sysconfig
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset

from polyrhythm.core.training.callers import is_ours
from polyrhythm.core.training.own_state.inner_parts import PROXIES, is_iterator, of_callable, position
from polyrhythm.core.training.own_state.nodes import Node
from polyrhythm.core.training.own_state.readings import attributes_set_anew, clock_attributes

_DEPTH, _PARTS, _MANY = 6, 20_000, 1000
_TEMPORARY = 1 << 20
"""Bytes of a tensor that a module sets anew: a larger one is taken to be of the iteration alone."""
_OPAQUE: Node = {"kind": "opaque"}
_PLAIN = (type(None), bool, int, float, str)
_ADDRESSES = 1 << 32
_DICTS = (dict, OrderedDict, defaultdict, Counter)
_CONTAINERS = {list: "list", deque: "deque", set: "set"}
_OF_MODULES = frozenset((*vars(nn.Module()), "training"))
_NONE: Mapping[int, weakref.ref[Tensor]] = {}
_NOTHING: Any = object()
_THEIR_OWN = (nn.Module, Optimizer, LRScheduler, Dataset, DataLoader, Enum, BaseException)


@lru_cache(maxsize=512)
def _of_user(kind: Any) -> bool:
    """True for a class of the user's that is not a kind of module, optimizer, data set, enum or exception, and for plain namespaces."""
    if kind in (SimpleNamespace, argparse.Namespace):
        return True
    return not issubclass(kind, (*_THEIR_OWN, type)) and _by_user(kind)


@lru_cache(maxsize=512)
def _by_user(kind: Any) -> bool:
    """True if the user has written the class."""
    name = str(kind.__module__)
    if name == "builtins" or is_ours(name) or name == "torch" or name.startswith("torch."):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" or name not in sys.modules:
        return True
    paths = [sysconfig.get_path(each) for each in ("stdlib", "platstdlib", "purelib", "platlib")]
    return file is not None and not file.startswith(tuple(paths)) and "site-packages" not in file and "dist-packages" not in file


def _is_of_user(value: Any) -> bool:
    kind: Any = type(value)
    return _of_user(kind)


class ObjectTree:
    """Makes the tree of one variable, without the objects in `mine`; tensors that are `known` from the start were changed in place."""

    def __init__(self, mine: Collection[int], known: Mapping[int, weakref.ref[Tensor]] = _NONE) -> None:
        self.mine = mine
        self.known = known
        self.left = _PARTS
        self.around: list[int] = []
        self.tensors: dict[int, weakref.ref[Tensor]] = {}

    def of(self, value: Any) -> Node:
        """The tree of `value`."""
        if type(value) in _PLAIN:
            return {"kind": "value", "value": value}
        if type(value) in PROXIES:
            return _OPAQUE
        if isinstance(value, nn.Module):
            return self.modules(value)
        if id(value) in self.mine or id(value) in self.around:
            return _OPAQUE
        for holds, describe in _KINDS:
            if holds(value):
                return describe(self, value)
        return _OPAQUE

    def parts(self, kind: str, values: Collection[Any], keys: Collection[Any] | None = None, within: object = None) -> Node:
        """The tree of a container."""
        plain = all(type(each) in _PLAIN for each in values)
        if plain and len(values) >= _MANY and (keys is None or all(map(_is_key, keys))):
            held = list(values) if keys is None else dict(zip(keys, values, strict=True))
            return {"kind": "values", "of": kind, "value": held, "count": len(held)}
        if len(self.around) >= _DEPTH or (not plain and len(values) > self.left):
            return _unseen(values)
        self.left -= 0 if plain else len(values)
        self.around.append(id(within))
        node = {"kind": kind, "items": [self.of(each) for each in values]}
        if keys is not None:
            node["keys"] = [self.of(each) if _is_key(each) else _OPAQUE for each in keys]
        self.around.pop()
        return node

    def tensor(self, value: Tensor) -> Node:
        """The tree of a tensor."""
        self.tensors[id(value)] = weakref.ref(value)
        known = self.known.get(id(value))
        return {
            "kind": "tensor",
            "value": value.detach(),
            "in_place": known is not None and known() is value,
            "device": str(value.device),
            "learned": value.requires_grad and value.is_leaf,
        }

    def attributes(self, value: Any) -> Node:
        """The tree of an object of a class of the user's."""
        kind: Any = type(value)
        names = sorted(_names(value) - clock_attributes(kind))
        node = self.parts("object", [attribute(value, each) for each in names], names, value)
        return node | {"set_anew": sorted(attributes_set_anew(kind).intersection(names))}

    def extended(self, value: Any) -> Node:
        """The tree of a container of a class of the user's: as of its base, and its attributes."""
        base = next(each for each in _CONTAINERS if isinstance(value, each))
        return {"kind": "extended", "items": [self.parts(_CONTAINERS[base], _sequence(value), None, value), self.attributes(value)]}

    def modules(self, value: nn.Module) -> Node:
        """The tree of a module: of what it has besides parameters and buffers, and of which parameters are learned."""
        found = {}
        for name, each in value.named_modules():
            held = {key: inner for key, inner in vars(each).items() if self._of_module(type(each), key, inner)}
            found[name] = self.parts("object", list(held.values()), list(held)) | {"set_anew": [*held.keys() - {"training"}]}
        learned = [name for name, each in value.named_parameters() if each.requires_grad]
        keys = [self.of(name) for name in found]
        return {"kind": "modules", "value": learned, "items": list(found.values()), "keys": keys, "set_anew": []}

    @staticmethod
    def _of_module(kind: type, name: str, held: Any) -> bool:
        if name == "training" or not _by_user(kind):
            return type(held) in _PLAIN and not name.startswith("_")
        if isinstance(held, Tensor):
            return name not in _OF_MODULES and held.grad_fn is None and held.nbytes <= _TEMPORARY
        return name not in _OF_MODULES and not isinstance(held, nn.Module)

    def behind(self, value: Any) -> Node:
        """The tree of the objects that a callable may change."""
        return self.parts("callable", of_callable(value) or (), None, value)

    def iterator(self, value: Any) -> Node:
        """The tree of an iterator: how far it is."""
        there = position(value)
        if there is None:
            return _OPAQUE
        return self.parts("iterator", list(there.parts), None, value) | {"value": there.mark if there.known else None}


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[ObjectTree, Any], Node]], ...] = (
    (lambda v: isinstance(v, Enum), lambda d, v: {"kind": "member", "value": v.name}),
    (lambda v: type(v) is complex, lambda d, v: _array("number", np.asarray(v))),
    (lambda v: isinstance(v, np.generic) and not v.dtype.hasobject, lambda d, v: _array("number", np.asarray(v))),
    (lambda v: type(v) is np.ndarray and (v.dtype.hasobject or v.dtype.names is not None), lambda d, v: _unseen(v.reshape(-1).tolist())),
    (lambda v: type(v) is np.ndarray, lambda d, v: _array("array", v)),
    (lambda v: type(v) in (Tensor, nn.Parameter) and _is_dense(v), ObjectTree.tensor),
    (lambda v: type(v) is list, lambda d, v: d.parts("list", v, None, v)),
    (lambda v: type(v) is deque, lambda d, v: d.parts("deque", v, None, v)),
    (lambda v: type(v) is tuple or (isinstance(v, tuple) and hasattr(v, "_make")), lambda d, v: d.parts("tuple", v, None, v)),
    (lambda v: type(v) is set and all(type(each) in (int, str) for each in v), lambda d, v: d.parts("set", _sequence(v), None, v)),
    (lambda v: type(v) in (set, frozenset, bytearray), lambda d, v: _unseen(v)),
    (lambda v: isinstance(v, tuple(_CONTAINERS)) and _is_of_user(v), ObjectTree.extended),
    (lambda v: type(v) in _DICTS or (isinstance(v, dict) and _is_of_user(v)), lambda d, v: d.parts("dict", list(v.values()), list(v), v)),
    (_is_of_user, ObjectTree.attributes),
    (lambda v: bool(of_callable(v)), ObjectTree.behind),
    (is_iterator, ObjectTree.iterator),
)


def _sequence(value: Any) -> list[Any]:
    return sorted(value, key=repr) if isinstance(value, set) else list(value)


def _unseen(values: Collection[Any]) -> Node:
    """A node for a container that is too large or too deep: a hash that shows changes in this run, and means nothing in a later one."""
    held = sorted(values, key=repr) if isinstance(values, bytearray) else values
    return {"kind": "long", "count": len(values), "value": hash(tuple(map(_identity, held)))}


def _identity(value: Any) -> int:
    return hash(value) if type(value) in _PLAIN else id(value)


def _is_key(value: Any) -> bool:
    """True if a key is the same in another process: others, such as parameters or their id(), are identified by their place."""
    parts = value if type(value) is tuple else (value,)
    return all(type(each) in _PLAIN and not (type(each) is int and each >= _ADDRESSES) for each in parts)


def _is_dense(value: Tensor) -> bool:
    return value.layout is torch.strided and value.device.type != "meta" and not value.is_quantized and not value.is_nested


def _array(kind: str, value: Any) -> Node:
    whole = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return {
        "kind": kind,
        "value": torch.from_numpy(whole if whole.flags.writeable else whole.copy()),
        "of": value.dtype.str,
        "shape": list(value.shape),
    }


def _names(value: Any) -> set[str]:
    """The names of the attributes that an object has itself."""
    slots = (each.__dict__.get("__slots__", ()) for each in type(value).__mro__)
    named = {name for each in slots for name in ((each,) if isinstance(each, str) else each) if attribute(value, name) is not _NOTHING}
    held = [name for name in attribute(value, "__dict__", {}) if isinstance(name, str)]
    return {name for name in (*named, *held) if not name.startswith("__")}


def attribute(value: Any, name: str, otherwise: Any = _NOTHING) -> Any:
    """An attribute that the object itself has, without its __getattr__."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return otherwise
