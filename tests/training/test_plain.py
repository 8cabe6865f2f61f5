"""What a worker broadcasts comes out as it went in, or is refused."""

from __future__ import annotations

import math
from collections import OrderedDict, namedtuple
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.training.collectives.plain import decoded, encoded
from polyrhythm.errors import WorkloadError

KEYS = st.text() | st.integers(-(2**63), 2**64 - 1) | st.booleans() | st.none()
PLAIN = st.recursive(
    KEYS | st.floats() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)
Pair = namedtuple("Pair", "a b")


class Colour(IntEnum):
    """A number with a name."""

    RED = 1


@given(PLAIN)
def test_plain_values_keep_their_types_and_every_bit(value: Any) -> None:
    assert repr(decoded(encoded(value))) == repr(value)  # tells nan, -0.0, True, tuples and numbers as keys apart


def around() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    "value",
    [
        {1, 2}, Pair(1, 2), OrderedDict(a=1), Colour.RED, np.float64(1.0), np.arange(2), 2**70, "\ud800", object(), around(),
        [torch.ones(1)], {"x": {3}}, {(1, 2): 3}, math.sin, bytearray(b"x"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_would_come_out_as_something_else_is_refused(value: Any) -> None:
    with pytest.raises(WorkloadError, match=r"cannot be sent without changing it: give a tensor, or numbers, text, bytes"):
        encoded(value)
