"""Inputs and results in HTTP: tensors as KServe's V2 protocol writes them in JSON, or as bare bytes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from polyrhythm.core.number_types import NUMBER_TYPES
from polyrhythm.errors import CompositionError
from polyrhythm.serving.requests import Ok, Overdue
from polyrhythm.serving.server.answers import Failed, ServerOutcome, kind_of
from polyrhythm.serving.server.served_model import InputForm

BYTES, JSON = "application/octet-stream", "application/json"
_TYPES = {each.kserve: each.numpy for each in NUMBER_TYPES}
_NAMES = {each.numpy: each.kserve for each in NUMBER_TYPES}


class _Tensor(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    data: list[bool | int | float]


class _Inference(msgspec.Struct):
    inputs: list[_Tensor]


_READ = msgspec.json.Decoder(_Inference)


def read_input(body: bytes, kind: str, form: InputForm) -> np.ndarray:
    """The one input of a request of the content type `kind`; bytes are C-ordered, of the shape and type of `form`.

    An axis of any length, of which there may be one, has the length that the bytes give. Raises CompositionError for what cannot be read,
    and for numbers in JSON that are not whole or too large for their datatype; those of floats are rounded to the nearest.
    """
    if kind.startswith(BYTES):
        return _from_bytes(body, form)
    try:
        tensors = _READ.decode(body).inputs
    except msgspec.MsgspecError as problem:
        raise CompositionError(
            f"The body cannot be read ({problem}): give JSON like "
            '{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [0.5, 1.0]}]}, '
            f"or the bytes of the input with the content type {BYTES}."
        ) from problem
    if len(tensors) != 1:
        raise CompositionError(f"The request has {len(tensors)} inputs: give one.")
    try:
        return _converted(tensors[0].data, tensors[0].datatype).reshape(tensors[0].shape)
    except KeyError as problem:
        raise CompositionError(f"The datatype {problem} is not known: give one of {', '.join(_TYPES)}.") from problem
    except CompositionError:
        raise  # it is a ValueError, and a sentence already
    except (ValueError, OverflowError) as problem:
        raise CompositionError(f"The data do not fit their shape or datatype: {problem}.") from problem


def write_answer(answer: ServerOutcome, kind: str, session: str) -> tuple[ServerOutcome, bytes, Mapping[str, str]]:
    """The outcome, body and headers of an answer: a result, or a line that says why none is there. One that cannot be written fails."""
    if isinstance(answer, Ok | Overdue):
        try:
            return answer, *write_result(answer.result, kind, session)
        except CompositionError as problem:
            answer = Failed(answer.finished, str(problem))
    said = answer.problem if isinstance(answer, Failed) else kind_of(answer)
    return answer, f"{said}\n".encode(), {}


def write_result(result: np.ndarray, kind: str, session: str) -> tuple[bytes, Mapping[str, str]]:
    """The body and headers of a result, in the form in which the input came; of bytes, shape and type are in headers.

    Raises CompositionError for NaN and infinity in JSON, which has no numbers for them, and for what is no array of numbers.
    """
    shape = list(result.shape)
    if str(result.dtype) not in _NAMES:
        raise CompositionError(f"The result is of {result.dtype}, which cannot be sent: let the model return one of {', '.join(_NAMES)}.")
    if kind.startswith(BYTES):
        headers = {"Content-Type": BYTES, "X-Shape": ",".join(map(str, shape)), "X-Datatype": _NAMES[str(result.dtype)]}
        return np.ascontiguousarray(result).tobytes(), headers
    if result.dtype.kind == "f" and not np.isfinite(result).all():
        raise CompositionError(f"The result has NaN or infinity, for which JSON has no numbers: ask with the content type {BYTES}.")
    tensor = {"name": "output", "shape": shape, "datatype": _NAMES[str(result.dtype)], "data": result.ravel().tolist()}
    return msgspec.json.encode({"model_name": session, "outputs": [tensor]}), {"Content-Type": JSON}


def _converted(data: list[bool | int | float], datatype: str) -> np.ndarray:
    """The numbers as that type. Raises CompositionError where one would become another number, and KeyError for an unknown type."""
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found below
        made = np.asarray(data, _TYPES[datatype])
    if made.dtype.kind == "f":
        lost = np.flatnonzero(~np.isfinite(made))
    else:
        found = made.tolist()
        lost = np.asarray([] if found == data else [place for place, each in enumerate(data) if each != found[place]])
    if lost.size:
        place = int(lost[0])
        raise CompositionError(f"The number {data[place]} at place {place} is none of {datatype}: give such numbers, or another datatype.")
    return made


def _from_bytes(body: bytes, form: InputForm) -> np.ndarray:
    known = int(np.prod([each for each in form.shape if each is not None], dtype=np.int64)) * np.dtype(form.dtype).itemsize
    free = form.shape.count(None)
    fits = len(body) == known if free == 0 else free == 1 and known > 0 and len(body) % known == 0
    if not fits:
        raise CompositionError(
            f"The body has {len(body)} bytes, and the input {form.nbytes} of them: give the input as {form.dtype} in C order."
        )
    return np.frombuffer(body, form.dtype).reshape([-1 if each is None else each for each in form.shape])
