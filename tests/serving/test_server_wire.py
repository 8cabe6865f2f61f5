"""Inputs and results in HTTP."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
import torch

from polyrhythm.core.number_types import NUMBER_TYPES
from polyrhythm.errors import CompositionError
from polyrhythm.serving import Dropped, Ok, Overdue, Rejected
from polyrhythm.serving.server.answers import Failed, status_of
from polyrhythm.serving.server.served_model import InputForm, TorchServed
from polyrhythm.serving.server.wire import BYTES, JSON, read_input, write_answer, write_result

FORM = InputForm((2, 3))


@pytest.mark.parametrize("dtype", [each.numpy for each in NUMBER_TYPES])
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
        *(
            (f'{{"inputs": [{{"name": "x", "shape": [2], "datatype": "{kind}", "data": [1, {number}]}}]}}'.encode(), JSON, said)
            for kind, number, said in [
                ("INT64", "1.9", "The number 1.9 at place 1 is none of INT64: give such numbers"),
                ("INT64", "-0.7", "none of INT64"),
                ("INT64", "1e30", "INT64|do not fit"),
                ("UINT8", "-1", "do not fit"),
                ("UINT8", "-1.0", "UINT8|do not fit"),
                ("BOOL", "2", "none of BOOL"),
                ("FP16", "70000", "none of FP16"),
                ("FP32", "1e39", "none of FP32"),
            ]
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(body: bytes, kind: str, said: str) -> None:
    with pytest.raises(CompositionError, match=said) as refused:
        read_input(body, kind, FORM)
    assert not str(refused.value).endswith("..")


@pytest.mark.parametrize(("datatype", "data"), [("INT64", [1.0, 2]), ("BOOL", [1, 0.0]), ("INT8", [1.0, -128]), ("FP32", [0.1, 2**60])])
def test_numbers_that_keep_their_value_are_taken_however_they_are_written(datatype: str, data: list[float]) -> None:
    body = json.dumps({"inputs": [{"name": "x", "shape": [2], "datatype": datatype, "data": data}]}).encode()
    assert read_input(body, JSON, FORM).tolist() == pytest.approx(data, rel=1e-6)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_sent_as_bytes_and_fail_in_json(number: float) -> None:
    result = np.asarray([1.0, number], np.float32)
    answer, body, _ = write_answer(Ok(1.0, result), BYTES, "s")
    assert isinstance(answer, Ok)
    assert np.array_equal(np.frombuffer(body, np.float32), result, equal_nan=True)
    answer, body, _ = write_answer(Overdue(1.0, result), JSON, "s")
    assert isinstance(answer, Failed)
    assert status_of(answer)[0] == 500
    assert body.startswith(b"The result has NaN or infinity")


def test_a_result_that_cannot_be_sent_fails_before_it_is_counted() -> None:
    answer, body, _ = write_answer(Ok(1.0, np.zeros(2, np.complex64)), JSON, "s")
    assert isinstance(answer, Failed)
    assert b"complex64" in body


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64"])
def test_a_model_whose_output_no_answer_can_have_is_refused_when_it_is_loaded(dtype: str) -> None:
    class Cast(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(getattr(torch, dtype))

    with pytest.raises(CompositionError, match=f"output is of {dtype}, which no answer can have"):
        TorchServed(Cast, FORM).load()


def test_a_module_may_be_made_by_anything_that_can_be_called() -> None:
    loaded = TorchServed(partial(torch.nn.Linear, 3, 4), FORM).load()
    assert loaded([np.zeros((2, 3), np.float32)])[0].shape == (2, 4)


def test_an_input_of_a_type_that_no_request_can_have_is_refused() -> None:
    with pytest.raises(CompositionError, match="'complex64' of an input is not known"):
        InputForm((2,), "complex64")


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
