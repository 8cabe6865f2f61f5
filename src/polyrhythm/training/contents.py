"""What a variable holds, as a tree that a checkpoint can hold, and how it is put back into the same objects; `own_state` asks."""

from __future__ import annotations

import argparse
import hashlib
import sys
import sysconfig
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
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

from polyrhythm.training.callers import is_ours
from polyrhythm.training.readings import attributes_set_anew, clock_attributes

Node = dict[str, Any]
"""Its `kind`, and what is of that kind: a `value`, or `items` and, where these have names, their `keys`."""

MOST_BYTES = 64 << 20
_DEPTH, _PARTS, _SAMPLE = 6, 20_000, 1 << 12
_OPAQUE: Node = {"kind": "opaque"}
_PLAIN = (type(None), bool, int, float, str)
_ADDRESSES = 1 << 32
_DICTS = (dict, OrderedDict, defaultdict, Counter)
_NONE: Mapping[int, weakref.ref[Tensor]] = {}
_THEIR_OWN = (nn.Module, Optimizer, LRScheduler, Dataset, DataLoader, Enum, BaseException)


@lru_cache(maxsize=512)
def _of_user(kind: Any) -> bool:
    """Whether the class is no library's."""
    if kind in (SimpleNamespace, argparse.Namespace):
        return True
    name = kind.__module__
    if issubclass(kind, (*_THEIR_OWN, type)) or name == "builtins" or is_ours(name) or name.startswith("torch."):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" or name not in sys.modules:
        return True
    paths = [sysconfig.get_path(each) for each in ("stdlib", "platstdlib", "purelib", "platlib")]
    return file is not None and not file.startswith(tuple(paths)) and "site-packages" not in file and "dist-packages" not in file


def _is_of_user(value: Any) -> bool:
    kind: Any = type(value)
    return _of_user(kind)


class Description:
    """Makes the tree of one variable, without what is in `mine`; tensors that are `known` from the beginning have been changed in place."""

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
        if len(values) > self.left and not all(type(each) in _PLAIN for each in values):
            return {"kind": "long", "count": len(values)}
        if len(self.around) >= _DEPTH:
            return _OPAQUE
        self.left -= len(values)
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
        node = self.parts("object", [getattr(value, each) for each in names], names, value)
        return node | {"set_anew": sorted(attributes_set_anew(kind).intersection(names))}

    def modules(self, value: nn.Module) -> Node:
        """The tree of a module: of its numbers, text and switches, which are no parameters or buffers."""
        found = {}
        for name, each in value.named_modules():
            plain = {key: held for key, held in vars(each).items() if type(held) in _PLAIN and not key.startswith("_")}
            found[name] = self.parts("object", list(plain.values()), list(plain)) | {"set_anew": [*plain.keys() - {"training"}]}
        return {"kind": "modules", "items": list(found.values()), "keys": [self.of(name) for name in found], "set_anew": []}


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Description, Any], Node]], ...] = (
    (lambda v: isinstance(v, Enum), lambda d, v: {"kind": "member", "value": v.name}),
    (lambda v: isinstance(v, np.generic) and not v.dtype.hasobject, lambda d, v: _array("number", np.asarray(v))),
    (lambda v: type(v) is np.ndarray and not v.dtype.hasobject, lambda d, v: _array("array", v)),
    (lambda v: type(v) in (Tensor, nn.Parameter) and _is_dense(v), Description.tensor),
    (lambda v: type(v) is list, lambda d, v: d.parts("list", v, None, v)),
    (lambda v: type(v) is deque, lambda d, v: d.parts("deque", v, None, v)),
    (lambda v: type(v) is tuple or (isinstance(v, tuple) and hasattr(v, "_make")), lambda d, v: d.parts("tuple", v, None, v)),
    (lambda v: type(v) is set and all(type(each) in (int, str) for each in v), lambda d, v: d.parts("set", sorted(v, key=repr), None, v)),
    (lambda v: type(v) in (set, frozenset), lambda d, v: {"kind": "long", "count": len(v)}),
    (lambda v: type(v) in _DICTS or (isinstance(v, dict) and _is_of_user(v)), lambda d, v: d.parts("dict", list(v.values()), list(v), v)),
    (_is_of_user, Description.attributes),
)


def _is_key(value: Any) -> bool:
    """Whether a key is the same in another process: others, such as parameters or their id(), are told by their place."""
    parts = value if type(value) is tuple else (value,)
    return all(type(each) in _PLAIN and not (type(each) is int and each >= _ADDRESSES) for each in parts)


def _is_dense(value: Tensor) -> bool:
    return value.layout is torch.strided and value.device.type != "meta" and not value.is_quantized


def _array(kind: str, value: Any) -> Node:
    whole = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return {
        "kind": kind,
        "value": torch.from_numpy(whole if whole.flags.writeable else whole.copy()),
        "of": value.dtype.str,
        "shape": list(value.shape),
    }


def numpy_of(node: Node) -> Any:
    return np.frombuffer(node["value"].numpy().tobytes(), np.dtype(node["of"])).reshape(node["shape"]).copy()


def _names(value: Any) -> set[str]:
    """Of the attributes that an object has itself."""
    slots = (each.__dict__.get("__slots__", ()) for each in type(value).__mro__)
    named = {name for each in slots for name in ((each,) if isinstance(each, str) else each) if hasattr(value, name)}
    return {name for name in named | getattr(value, "__dict__", {}).keys() if not name.startswith("__")}


def content_of(tensor: Tensor) -> Tensor:
    """The bytes of a tensor, in the memory of the processor."""
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)


def lasting(node: Node) -> Node:
    """The tree without attributes that methods set anew: these may be of the iteration under way alone."""
    if not {"object", "modules"} & {node["kind"]}:
        return node | {"items": [lasting(each) for each in node["items"]]} if "items" in node else node
    pairs = [
        (key, each) for key, each in zip(node.get("keys", ()), node.get("items", ()), strict=True) if key["value"] not in node["set_anew"]
    ]
    return node | {"keys": [key for key, _ in pairs], "items": [lasting(each) for _, each in pairs], "set_anew": []}


def tensors(node: Node) -> Iterator[Node]:
    """The nodes of tensors and arrays."""
    if node["kind"] in ("tensor", "array", "number"):
        yield node
    for each in (*node.get("keys", ()), *node.get("items", ())):
        yield from tensors(each)


def fingerprint(node: Node) -> bytes:
    """Another one if what the tree was made of has changed since: of a large tensor, some of the numbers are looked at."""
    digest = hashlib.blake2b(digest_size=16)

    def add(each: Node) -> None:
        value = each.get("value")
        digest.update(repr((each["kind"], None if isinstance(value, Tensor) else value, each.get("count"))).encode())
        if isinstance(value, Tensor):
            counted = each["kind"] == "tensor" and not value.is_inference()  # so every change of it has a number
            flat = value.reshape(-1)[:: max(1, value.numel() // (_SAMPLE if counted else MOST_BYTES))]
            digest.update(repr((tuple(value.shape), value.dtype, counted and (value._version, value.data_ptr()))).encode())
            digest.update(content_of(flat).numpy().tobytes())
        parts = (*each.get("keys", ()), *each.get("items", ()))
        if all(part["kind"] == "value" for part in parts):
            digest.update(repr([part["value"] for part in parts]).encode())
        else:
            for part in parts:
                add(part)
        digest.update(b")")

    add(node)
    return digest.digest()


def bounded(node: Node, room: int) -> tuple[Node, int]:
    """The tree with digests in the place of what needs more than `room` bytes, and the room that is left."""
    for each in list(tensors(node)):
        nbytes = each["value"].numel() * each["value"].element_size()
        if nbytes > room:
            digest = _digest(each)
            each.clear()
            each.update(kind="large", digest=digest, nbytes=nbytes)
        else:
            room -= nbytes
    return node, room


def _digest(node: Node) -> str:
    return hashlib.blake2b(content_of(node["value"]).numpy().tobytes(), digest_size=16).hexdigest()


def same(there: Node, here: Node) -> bool:
    """Whether two trees are equal to the bit, as far as they are described."""
    if there["kind"] == "large" and here["kind"] in ("tensor", "array", "number"):
        return bool(there["digest"] == _digest(here))
    if there["kind"] != here["kind"]:
        return False
    a, b = there.get("value"), here.get("value")
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        fits = a.dtype == b.dtype and a.shape == b.shape and there.get("of") == here.get("of") and there.get("shape") == here.get("shape")
        return fits and torch.equal(content_of(a), content_of(b))
    if not (type(a) is type(b) and (a == b or (isinstance(a, float) and a != a and b != b))):
        return False
    parts = [(there.get(each, ()), here.get(each, ())) for each in ("keys", "items")]
    fits = there.get("count") == here.get("count") and all(len(mine) == len(other) for mine, other in parts)
    return fits and all(same(*each) for mine, other in parts for each in zip(mine, other, strict=True))


def plain(node: Node) -> Any:
    """The value that `Worker.variables` takes; None for what it does not."""
    kind = node["kind"]
    if kind in ("value", "tensor"):
        return node["value"]
    if kind in ("number", "array"):
        return torch.from_numpy(numpy_of(node)) if kind == "array" else numpy_of(node).item()
    if kind in ("list", "tuple", "deque"):
        return (tuple if kind == "tuple" else list)(plain(each) for each in node["items"])
    if kind == "dict":
        return {plain(key): plain(each) for key, each in zip(node["keys"], node["items"], strict=True)}
    return None


def shown(node: Node) -> str:
    """In a sentence."""
    kind = node["kind"]
    if kind in ("value", "member"):
        return repr(node["value"])
    if kind == "number" or (kind == "array" and not node["shape"]):
        return repr(numpy_of(node).item())
    if kind == "tensor":
        return f"a tensor of {tuple(node['value'].shape)}"
    if kind == "array":
        return f"an array of {tuple(node['shape'])}"
    count = node.get("count", len(node.get("items", ())))
    return {
        "object": "an object",
        "modules": "a module",
        "large": "a large tensor",
        "opaque": "something else",
        "long": f"something of {count} parts",
    }.get(kind, f"a {kind} of {count}")
