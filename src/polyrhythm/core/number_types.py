"""The types of numbers that arrays of models have, and their names in numpy, in ONNX's runtime, and in KServe's protocol."""

from __future__ import annotations

from typing import NamedTuple


class NumberType(NamedTuple):
    """One type by its three names."""

    numpy: str
    onnx: str
    kserve: str


NUMBER_TYPES = (
    NumberType("bool", "tensor(bool)", "BOOL"),
    NumberType("uint8", "tensor(uint8)", "UINT8"),
    NumberType("uint16", "tensor(uint16)", "UINT16"),
    NumberType("uint32", "tensor(uint32)", "UINT32"),
    NumberType("uint64", "tensor(uint64)", "UINT64"),
    NumberType("int8", "tensor(int8)", "INT8"),
    NumberType("int16", "tensor(int16)", "INT16"),
    NumberType("int32", "tensor(int32)", "INT32"),
    NumberType("int64", "tensor(int64)", "INT64"),
    NumberType("float16", "tensor(float16)", "FP16"),
    NumberType("float32", "tensor(float)", "FP32"),
    NumberType("float64", "tensor(double)", "FP64"),
)
"""All that numpy has a type for: bfloat16 and text have none."""
