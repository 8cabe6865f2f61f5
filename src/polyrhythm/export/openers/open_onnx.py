"""Opens an ONNX model in a process that has nothing else; run as a script by `time_model.py`, which is beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime  # type: ignore[import-untyped,unused-ignore]


def open_model(path: str, inputs: dict[str, Any]) -> Callable[[], object]:
    """A function that computes the outputs of `inputs` once, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)
