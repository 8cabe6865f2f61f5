"""Settings of pieces: what is not a number is none of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from polyrhythm import consistency, merge
from polyrhythm import local_rules as local
from polyrhythm.errors import CompositionError

RULES = (
    merge.Nesterov(),
    merge.Adagrad(),
    merge.Adagrad(learning_rate=0.1),
    merge.SlowMomentum(),
    merge.SignDescent(0.1),
    merge.FrozenAdam(1),
    consistency.Every(2),
    consistency.Switched(1, 2),
)


def numbers() -> Iterator[Any]:
    """Each setting of each piece that is a number."""
    for piece in dict.fromkeys((*merge.MEMBERS, *local.MEMBERS, *consistency.MEMBERS, *RULES)):
        for field in dataclasses.fields(piece):
            if str(field.type).split(" ")[0] in {"int", "float"}:
                yield pytest.param(piece, field.name, id=f"{piece}-{field.name}")


@pytest.mark.parametrize(("piece", "name"), list(numbers()))
def test_what_is_no_number_is_refused(piece: Any, name: str) -> None:
    with pytest.raises(CompositionError, match="nan"):
        dataclasses.replace(piece, **{name: float("nan")})
