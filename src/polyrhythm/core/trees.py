"""State as a value: plain values and tensors by name, nested, stored together as JSON and safetensors.

Every `Stateful` object exports such a tree; `checkpoints` writes it to files and reads it back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from polyrhythm.errors import CompositionError

StateTree = Any
"""None, bool, int, float, str, a CPU tensor; or a list, a tuple or a dict of them. Keys of a dict are strings or ints."""

_TENSOR, _TUPLE, _FLOAT, _PAIRS = "tensor", "tuple", "float", "pairs"


def separate(tree: StateTree) -> tuple[str, dict[str, Tensor]]:
    """`tree` as JSON text, and its tensors by their path in it. Raises CompositionError for a value that no tree can hold."""
    tensors: dict[str, Tensor] = {}
    return json.dumps(_plain(tree, "", tensors), allow_nan=False), tensors


def unite(text: str, tensors: Mapping[str, Tensor]) -> StateTree:
    """The tree that `separate` has split into `text` and `tensors`."""
    return _restored(json.loads(text), tensors)


def _plain(value: StateTree, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = path or "value"
        while name in tensors:  # another key has this path: one with a slash, or a number and the text of its digits
            name += "'"
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {_TENSOR: name}
    if isinstance(value, dict):
        return _plain_dict(value, path, tensors)
    if isinstance(value, (list, tuple)):
        items = [_plain(item, _below(path, k), tensors) for k, item in enumerate(value)]
        return items if isinstance(value, list) else {_TUPLE: items}
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise CompositionError(
        f"{path or 'The state'} contains {value!r}, a {type(value).__name__}, which a checkpoint cannot hold: give numbers, text, tensors, "
        "and lists, tuples and dicts of them."
    )


def _plain_dict(value: Mapping[Any, StateTree], path: str, tensors: dict[str, Tensor]) -> Any:
    if any(isinstance(key, bool) or not isinstance(key, (str, int)) for key in value):
        raise CompositionError(f"{path or 'The state'} has the keys {list(value)}, but keys in a checkpoint must be text or integers.")
    plain = {key: _plain(item, _below(path, key), tensors) for key, item in value.items()}
    if all(isinstance(key, str) for key in plain) and not (len(plain) == 1 and plain.keys() & {_TENSOR, _TUPLE, _FLOAT, _PAIRS}):
        return plain
    return {_PAIRS: [[key, item] for key, item in plain.items()]}


def _below(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _restored(value: Any, tensors: Mapping[str, Tensor]) -> StateTree:
    if isinstance(value, list):
        return [_restored(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(kind, held)] = value.items()
        if kind == _TENSOR:
            return tensors[held]
        if kind == _TUPLE:
            return tuple(_restored(item, tensors) for item in held)
        if kind == _FLOAT:
            return float(held)
        if kind == _PAIRS:
            return {key: _restored(item, tensors) for key, item in held}
    return {key: _restored(item, tensors) for key, item in value.items()}


def copied(tree: StateTree) -> StateTree:
    """`tree` with tensors copied into new memory, on their devices."""
    if isinstance(tree, Tensor):
        return tree.detach().clone()
    if isinstance(tree, dict):
        return {key: copied(item) for key, item in tree.items()}
    return type(tree)(copied(item) for item in tree) if isinstance(tree, (list, tuple)) else tree
