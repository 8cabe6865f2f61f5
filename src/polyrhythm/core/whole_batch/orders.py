"""Orders to servers that hold vectors: what the coordinator has them compute, in a few numbers each."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Deed(IntEnum):
    """What is done with the vectors x (`first`) and y (`second`), and a number a."""

    COPY = 0
    """out = x"""
    FILL = 1
    """out = a"""
    SCALE = 2
    """out = a x"""
    AXPY = 3
    """out = x + a y"""
    ABS = 4
    """out = |x|"""
    DOT = 5
    """answers x · y"""
    SUM = 6
    """answers the sum of x"""
    MAX = 7
    """answers the largest element of x"""
    FREE = 8
    """forgets x"""
    PUBLISH = 9
    """x are the weights of evaluation a"""
    GATHER = 10
    """out = the sum of the contributions to evaluation a that follow in the order"""
    SETTLE = 11
    """x are the weights after step a: the result of the run so far"""


ANSWERED = frozenset({Deed.DOT, Deed.SUM, Deed.MAX})
_NUMBERS = 5


class VectorOrder(NamedTuple):
    """One order; vectors are named by numbers, and `out` may be one that is there."""

    deed: Deed
    out: int = -1
    first: int = -1
    second: int = -1
    a: float = 0.0


def to_numbers(orders: Sequence[VectorOrder]) -> tuple[float, ...]:
    """Orders as the numbers of a message."""
    return tuple(float(number) for order in orders for number in order)


def from_numbers(numbers: Sequence[float]) -> list[VectorOrder]:
    """The orders that `to_numbers` has written."""
    rows = (numbers[k : k + _NUMBERS] for k in range(0, len(numbers), _NUMBERS))
    return [VectorOrder(Deed(int(deed)), int(out), int(first), int(second), a) for deed, out, first, second, a in rows]
