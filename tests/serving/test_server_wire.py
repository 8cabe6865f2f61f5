"""Inputs and results in HTTP."""

from __future__ import annotations

import json

import numpy as np
import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.serving import Dropped, Ok, Overdue, Rejected
from polyrhythm.serving.server.answers import Failed, status_of
from polyrhythm.serving.server.served_model import InputForm
from polyrhythm.serving.server.wire import BYTES, JSON, read_input, write_result

FORM = InputForm((2, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool", "float16"])
@pytest.mark.parametrize("kind", [BYTES, JSON])
def test_what_is_written_is_read_again(kind: str, dtype: str) -> None:
    given = np.arange(6).reshape(2, 3).astype(dtype)
    body, headers = write_result(given, kind, "s")
    if kind == JSON:
        body = json.dumps({"inputs": json.loads(body)["outputs"]}).encode()
    found = read_input(body, headers["Content-Type"], InputForm((2, 3), dtype))
    assert found.dtype == given.dtype
    assert (found == given).all()


def test_an_axis_of_any_length_follows_from_the_bytes() -> None:
    assert read_input(np.zeros(15, np.float32).tobytes(), BYTES, InputForm((None, 3))).shape == (5, 3)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"12345", BYTES, "has 5 bytes, and the input has 24"),
        (b"12345", JSON, "cannot be read"),
        (b'{"inputs": []}', JSON, "0 inputs: give one"),
        (b'{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1]}]}', JSON, "do not fit their shape"),
        (b'{"inputs": [{"name": "x", "shape": [1], "datatype": "TEXT", "data": [1]}]}', JSON, "TEXT' is not known"),
        (b'{"inputs": [{"name": "x", "shape": [1], "datatype": "UINT8", "data": [1000]}]}', JSON, "do not fit"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(body: bytes, kind: str, said: str) -> None:
    with pytest.raises(CompositionError, match=said):
        read_input(body, kind, FORM)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((3, 2), np.float32), "3 x 2 of float32: give 2 x 3"),
        (np.zeros((2, 3)), "of float64: give 2 x 3 of float32"),
        (np.zeros(6, np.float32), "give 2 x 3"),
    ],
)
def test_another_form_is_a_sentence(given: np.ndarray, said: str) -> None:
    assert said in (FORM.problem(given) or "")


def test_outcomes_have_the_statuses_of_http() -> None:
    assert [status_of(each)[0] for each in (Ok(1.0), Overdue(1.0), Failed(1.0, "x"), Failed(1.0, "x", True))] == [200, 200, 500, 400]
    status, headers = status_of(Dropped(1.0, "deadline"))
    assert (status, headers["Retry-After"]) == (503, "1")
    status, headers = status_of(Rejected(1.0, 1.25))
    assert (status, headers["Retry-After"], headers["Retry-After-Ms"]) == (429, "2", "1250")
