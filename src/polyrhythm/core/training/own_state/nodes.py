"""Trees of the content of variables, which `contents` makes: compared, limited in size, and shown in messages, for `own_state`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.torch_private.one_process import version

Node = dict[str, Any]
"""Its `kind`, and what is of that kind: a `value`, or `items` and, where these have names, their `keys`."""

MOST_BYTES = 64 << 20
_SAMPLE = 1 << 12


def numpy_of(node: Node) -> Any:
    return np.frombuffer(node["value"].numpy().tobytes(), np.dtype(node["of"])).reshape(node["shape"]).copy()


def content_of(tensor: Tensor) -> Tensor:
    """The bytes of a tensor (nbytes,), on the CPU."""
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
    """A digest that differs if the content of the tree has changed: of a large tensor, only some elements are read."""
    digest = hashlib.blake2b(digest_size=16)

    def add(each: Node) -> None:
        value = each.get("value")
        digest.update(repr((each["kind"], None if isinstance(value, Tensor) else value, each.get("count"))).encode())
        if isinstance(value, Tensor):
            counted = each["kind"] == "tensor" and not value.is_inference()  # so every change of it has a number
            flat = value.reshape(-1)[:: max(1, value.numel() // (_SAMPLE if counted else MOST_BYTES))]
            digest.update(repr((tuple(value.shape), value.dtype, counted and (version(value), value.data_ptr()))).encode())
            digest.update(content_of(flat).numpy().tobytes())
        if each["kind"] == "iterator" and value is None:
            digest.update(os.urandom(16))  # it may have advanced
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
    """The tree with digests in place of tensors that need more than `room` bytes in all, and the room that is left."""
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
    """True if two trees are equal to the bit, as far as they are described."""
    if there["kind"] == "large" and here["kind"] in ("tensor", "array", "number"):
        return bool(there["digest"] == _digest(here))
    if (
        there["kind"] != here["kind"]
        or there["kind"] == "long"
        or (there["kind"] == "iterator" and None in (there["value"], here["value"]))
    ):
        return False
    a, b = there.get("value"), here.get("value")
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        fits = a.dtype == b.dtype and a.shape == b.shape and there.get("of") == here.get("of") and there.get("shape") == here.get("shape")
        return fits and torch.equal(content_of(a), content_of(b))
    if not (type(a) is type(b) and (a == b or repr(a) == repr(b))):
        return False
    parts = [(there.get(each, ()), here.get(each, ())) for each in ("keys", "items")]
    fits = there.get("count") == here.get("count") and all(len(mine) == len(other) for mine, other in parts)
    return fits and all(same(*each) for mine, other in parts for each in zip(mine, other, strict=True))


def plain(node: Node) -> Any:
    """The value as `Worker.variables` takes it; None for a content that it does not take."""
    kind = node["kind"]
    if kind in ("value", "tensor", "values"):
        return node["value"]
    if kind in ("number", "array"):
        return torch.from_numpy(numpy_of(node)) if kind == "array" else numpy_of(node).item()
    if kind in ("list", "tuple", "deque"):
        return (tuple if kind == "tuple" else list)(plain(each) for each in node["items"])
    if kind == "dict":
        return {plain(key): plain(each) for key, each in zip(node["keys"], node["items"], strict=True)}
    return None


def shown(node: Node) -> str:
    """The content in a few words, for a message."""
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
        "callable": "a function",
        "iterator": "an iterator",
        "extended": "a container",
        "values": f"a {node.get('of')} of {count}",
        "long": f"something of {count} parts",
    }.get(kind, f"a {kind} of {count}")
