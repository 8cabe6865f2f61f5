"""Inputs and results in HTTP: tensors as KServe's V2 protocol writes them in JSON, or as bare bytes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from polyrhythm.errors import CompositionError
from polyrhythm.serving.server.served_model import InputForm

BYTES, JSON = "application/octet-stream", "application/json"
_TYPES = {
    "BOOL": "bool", "UINT8": "uint8", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


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

    An axis of any length, of which there may be one, has the length that the bytes give. Raises CompositionError for what cannot be read.
    """
    if kind.startswith(BYTES):
        return _from_bytes(body, form)
    try:
        tensors = _READ.decode(body).inputs
        if len(tensors) != 1:
            raise CompositionError(f"The request has {len(tensors)} inputs: give one.")
        return np.asarray(tensors[0].data, _TYPES[tensors[0].datatype]).reshape(tensors[0].shape)
    except msgspec.MsgspecError as problem:
        raise CompositionError(
            f"The body cannot be read ({problem}): give JSON like "
            '{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [0.5, 1.0]}]}, '
            f"or the bytes of the input with the content type {BYTES}."
        ) from problem
    except KeyError as problem:
        raise CompositionError(f"The datatype {problem} is not known: give one of {', '.join(_TYPES)}.") from problem
    except (ValueError, OverflowError) as problem:
        raise CompositionError(f"The data do not fit their shape or datatype: {problem}.") from problem


def write_result(result: np.ndarray, kind: str, session: str) -> tuple[bytes, Mapping[str, str]]:
    """The body and headers of a result, in the form in which the input came; of bytes, shape and type are in headers."""
    shape = list(result.shape)
    if kind.startswith(BYTES):
        headers = {"Content-Type": BYTES, "X-Shape": ",".join(map(str, shape)), "X-Datatype": _NAMES[str(result.dtype)]}
        return np.ascontiguousarray(result).tobytes(), headers
    tensor = {"name": "output", "shape": shape, "datatype": _NAMES[str(result.dtype)], "data": result.ravel().tolist()}
    return msgspec.json.encode({"model_name": session, "outputs": [tensor]}), {"Content-Type": JSON}


def _from_bytes(body: bytes, form: InputForm) -> np.ndarray:
    known = int(np.prod([each for each in form.shape if each is not None], dtype=np.int64)) * np.dtype(form.dtype).itemsize
    free = form.shape.count(None)
    fits = len(body) == known if free == 0 else free == 1 and known > 0 and len(body) % known == 0
    if not fits:
        raise CompositionError(
            f"The body has {len(body)} bytes, and the input {form.nbytes} of them: give the input as {form.dtype} in C order."
        )
    return np.frombuffer(body, form.dtype).reshape([-1 if each is None else each for each in form.shape])
