"""A model that has left training, and its four calls: make it of a file, set inputs, go forward, get outputs.

They are those of MXNet's C predict API and its Go binding (go-mxnet-predictor): CreatePredictor, SetInput, Forward, GetOutput.
Nothing of torch is imported, so that a machine which only predicts needs onnxruntime and numpy alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyrhythm.core.extras import needed
from polyrhythm.core.number_types import NUMBER_TYPES
from polyrhythm.errors import PredictorError, unknown

_KINDS = {each.onnx: np.dtype(each.numpy) for each in NUMBER_TYPES}
_OPERATORS = (
    re.compile(r"implementation for (?:the node )?(?:\S*:)?([\w.]+)\("),
    re.compile(r"No Op registered for ([\w.]+)"),
    re.compile(r"([\w.]+:\w+)\(-?\d+\) is not a registered function/op"),
)
"""The ways in which onnxruntime says that it does not have an operator."""
Shape = tuple[int | str, ...]
"""A size for each dimension, or its name where any size will do."""


class Predictor:
    """The model in the ONNX file `path`, or in the folder that an export wrote.

        predictor = pr.Predictor("digits", {"image": (1, 1, 8, 8)})
        predictor.set_input("image", image)
        predictor.forward()
        scores = predictor.get_output(0)

    `shapes` fixes the shapes of inputs by name, such as {"image": (1, 1, 8, 8)}: others are then refused. `outputs` are the names of those
    that are wanted; all by default. `threads` compute at once. Raises PredictorError for a file that is no model, for shapes that it does
    not take, and for operators that onnxruntime does not have.
    """

    def __init__(
        self,
        path: str | Path,
        shapes: Mapping[str, Sequence[int]] | None = None,
        *,
        outputs: Sequence[str] | None = None,
        threads: int = 1,
    ) -> None:
        self._session = _opened(_file(Path(path)), threads)
        self._inputs = {each.name: (tuple(each.shape), _KINDS.get(each.type)) for each in self._session.get_inputs()}
        self._outputs = [each.name for each in self._session.get_outputs()]
        for name in outputs or ():
            if name not in self._outputs:
                raise unknown("output of the model", name, self._outputs)
        self._wanted = list(outputs) if outputs else self._outputs
        self._fixed = {name: self._fitting(name, tuple(shape)) for name, shape in (shapes or {}).items()}
        self._given: dict[str, Any] = {}
        self._found: list[Any] | None = None

    @property
    def inputs(self) -> dict[str, Shape]:
        """The shape of each input; a name stands where any size will do."""
        return {name: self._fixed.get(name, shape) for name, (shape, _) in self._inputs.items()}

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs, in the order in which `get_output` counts them."""
        return list(self._wanted)

    def set_input(self, name: str, data: Any) -> None:
        """Set the input `name` to `data`: an array, a tensor of torch's, or nested lists of numbers.

        Raises PredictorError for another shape or type of numbers, and UnknownNameError for an input that the model does not have.
        """
        if name not in self._inputs:
            raise unknown("input of the model", name, self._inputs)
        kind = self._inputs[name][1]
        try:
            array = _array(data, kind)
        except (TypeError, ValueError) as problem:
            raise PredictorError(
                f"The input {name} was given what is no array of numbers ({problem}): give an array or a tensor."
            ) from None
        if kind is not None and array.dtype != kind:
            raise PredictorError(f"The input {name} takes {kind}, and was given {array.dtype}: convert it, with .astype({str(kind)!r}).")
        self._fitting(name, array.shape)
        if name in self._fixed and array.shape != self._fixed[name]:
            raise PredictorError(
                f"The input {name} was given the shape {array.shape}, and the predictor was made for {self._fixed[name]}: give that, or "
                "make the predictor without fixed shapes."
            )
        self._given[name] = array
        self._found = None

    def forward(self) -> None:
        """Compute the outputs. Raises PredictorError where an input is missing, or sizes of several inputs do not fit each other."""
        missing = [name for name in self._inputs if name not in self._given]
        if missing:
            raise PredictorError(f"The input {missing[0]} has no value: call set_input({missing[0]!r}, data) before forward().")
        try:
            self._found = self._session.run(self._wanted, self._given)
        except Exception as problem:  # onnxruntime's own classes, one for each code
            shapes = ", ".join(f"{name} {each.shape}" for name, each in self._given.items())
            raise PredictorError(
                f"The model cannot compute inputs of shapes {shapes}: {_reason(problem)}. Give inputs whose sizes belong together."
            ) from problem

    def get_output(self, which: int | str = 0) -> Any:
        """The output of that number or name, as a numpy array. Raises PredictorError before `forward`, and for what is no output."""
        if self._found is None:
            raise PredictorError("There is no output yet: call forward() after the last set_input.")
        if isinstance(which, str):
            if which not in self._wanted:
                raise unknown("output of the predictor", which, self._wanted)
            which = self._wanted.index(which)
        if not 0 <= which < len(self._wanted):
            raise PredictorError(f"The model has no output {which}: there are {len(self._wanted)}, counted from 0.")
        return self._found[which]

    def get_output_shape(self, which: int | str = 0) -> tuple[int, ...]:
        """The shape of that output."""
        shape: tuple[int, ...] = self.get_output(which).shape
        return shape

    def _fitting(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape`, if the input `name` takes it."""
        if name not in self._inputs:
            raise unknown("input of the model", name, self._inputs)
        wanted = self._inputs[name][0]
        fits = len(wanted) == len(shape) and all(
            size == here or not isinstance(size, int) for size, here in zip(wanted, shape, strict=True)
        )
        if not fits:
            sizes = ", ".join(map(str, wanted))
            free = sorted({str(size) for size in wanted if not isinstance(size, int)})
            raise PredictorError(
                f"The input {name} was given the shape {shape}, and takes ({sizes})"
                + (f", with any {' and '.join(free)}" if free else "")
                + "."
                " Give an array of that shape."
            )
        return shape


def _file(path: Path) -> Path:
    """The model's file, which the folder of an export holds. Raises PredictorError where there is none."""
    found = path / "model.onnx" if path.is_dir() else path
    if not found.is_file():
        raise PredictorError(f"There is no model {found}: give an ONNX file, or the folder that polyrhythm export wrote.")
    if found.suffix == ".pte":
        raise PredictorError(f"{found} is ExecuTorch's: Predictor runs ONNX. Export the model with --to onnx.")
    return found


def _opened(path: Path, threads: int) -> Any:
    runtime = needed("onnxruntime", "export")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as problem:  # onnxruntime's own classes, one for each code
        text = str(problem)
        operator = next(filter(None, (each.search(text) for each in _OPERATORS)), None)
        if operator is not None:
            raise PredictorError(
                f"{path} uses the operator {operator[1]}, which this onnxruntime ({runtime.__version__}) does not have for these numbers: "
                "export the model without it or in float32, or install a runtime that has it."
            ) from problem
        raise PredictorError(f"{path} is no model that onnxruntime can open: {_reason(problem)}. Export it again.") from problem


def _array(data: Any, kind: Any) -> Any:
    """`data` as an array without copying; numbers of Python's become those that the input takes."""
    if callable(getattr(data, "detach", None)):
        data = data.detach().cpu().numpy()
    if isinstance(data, np.ndarray):
        return data
    array = np.asarray(data)
    if array.dtype == object:
        raise ValueError("its rows have several lengths, or it is not numbers")
    return array.astype(kind) if kind is not None and isinstance(data, (list, tuple, int, float)) and array.dtype.kind in "ifb" else array


def _reason(problem: Exception) -> str:
    """The message of onnxruntime's, without its codes."""
    text = str(problem).splitlines()[0]
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)[:300].rstrip(". ")
