"""The arguments and results of a model's call: tensors, or flat tuples, lists and dicts of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from torch import Tensor

SIMPLE = (bool, int, float, complex, str, bytes, type(None))
"""Types of values that are equal or not."""

Shape = Callable[[Sequence[Tensor]], Any]


class UnknownValue(Exception):
    """A value that is not told apart: what it is."""


def shape_of(value: Any) -> tuple[list[Tensor], Shape]:
    """The tensors of a result, and what makes such a result of others. Raises UnknownValue for another one."""
    if isinstance(value, Tensor):
        return [value], lambda leaves: leaves[0]
    if type(value) in (tuple, list) and all(isinstance(each, Tensor) for each in value):
        return list(value), type(value)
    if type(value) is dict and all(isinstance(each, Tensor) for each in value.values()):
        names = list(value)
        return list(value.values()), lambda leaves: dict(zip(names, leaves, strict=True))
    raise UnknownValue(f"its result is a {type(value).__name__}")


def key_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable:
    """Equal for arguments of the same shapes and settings. Raises UnknownValue for others than plain tensors and simple values."""
    return tuple(map(_key, args)), tuple((name, _key(value)) for name, value in kwargs.items())


def _key(value: Any) -> Hashable:
    if type(value) is Tensor:
        if value.requires_grad:
            raise UnknownValue("gradients are wanted of its arguments")
        return value.shape, value.dtype, value.layout
    if type(value) in SIMPLE:
        return type(value), value
    raise UnknownValue(f"it is called with a {type(value).__name__}")
