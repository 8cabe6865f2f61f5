"""Models that a machine loads and runs: of PyTorch, of an ONNX file, or one that only takes the time of its profile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from polyrhythm.core.extras import needed
from polyrhythm.core.number_types import NUMBER_TYPES
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.serving.latency_profile import LatencyProfile

if TYPE_CHECKING:
    import torch

_SENT = [each.numpy for each in NUMBER_TYPES]
Compute = Callable[[Sequence[Any]], Sequence[np.ndarray]]
"""The results of a batch of inputs, which are arrays or those of a family's variants, in their order."""


@dataclass(frozen=True, slots=True)
class InputForm:
    """The shape and type that each request's input has; an axis of None has any length, as for a text."""

    shape: tuple[int | None, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in _SENT:
            raise CompositionError(f"The type {self.dtype!r} of an input is not known: give one of {', '.join(_SENT)}.")

    def problem(self, given: np.ndarray) -> str | None:
        """A sentence if `given` has another form; None if it fits."""
        fits = len(given.shape) == len(self.shape) and all(want in (None, have) for want, have in zip(self.shape, given.shape, strict=True))
        if fits and str(given.dtype) == self.dtype:
            return None
        wanted = " x ".join("any" if each is None else str(each) for each in self.shape)
        return f"The input is {' x '.join(map(str, given.shape))} of {given.dtype}: give {wanted} of {self.dtype}."

    @property
    def nbytes(self) -> str:
        """The bytes of one input, in words."""
        count = int(np.prod([each for each in self.shape if each is not None], dtype=np.int64)) * np.dtype(self.dtype).itemsize
        return f"has {count}" if None not in self.shape else f"has a multiple of {count}"

    def example(self) -> np.ndarray:
        """Zeros of that form, to warm up and to measure with."""
        return np.zeros([1 if each is None else each for each in self.shape], self.dtype)


class ServedModel(Protocol):
    """A model that can be loaded on a machine. It travels there by cloudpickle, before it is loaded."""

    @property
    def form(self) -> InputForm:
        """The form of one input."""

    def load(self) -> Compute:
        """Load and warm up: the next call is as fast as any. Raises CompositionError for what cannot be loaded."""


@dataclass(frozen=True, slots=True)
class TorchServed:
    """The module that `make()` returns, in evaluation mode, on `device`; its first output counts. `threads` limits cores."""

    make: Callable[[], torch.nn.Module]
    form: InputForm
    device: str = "cpu"
    threads: int = 1

    def load(self) -> Compute:
        """Make the module, and compute one batch."""
        import torch

        module = self.module()

        def compute(batch: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            with torch.inference_mode():
                found = module(torch.from_numpy(np.stack(batch)).to(self.device))
                first = found if isinstance(found, torch.Tensor) else next(iter(found))
                refuse_output(str(first.dtype).removeprefix("torch."))
                return list(first.cpu().numpy())

        made = getattr(self.make, "__name__", repr(self.make))  # a partial has no name
        warmed(compute, [self.form.example()], f"The module of {made}()", self.form)
        return compute

    def module(self) -> torch.nn.Module:
        """The module on its device. Raises CompositionError where `make` returns something else."""
        import torch

        torch.set_num_threads(self.threads)
        module = self.make()
        if not isinstance(module, torch.nn.Module):
            raise CompositionError(f"{self.make!r} returned {type(module).__name__}: let it return a torch.nn.Module.")
        return module.eval().to(self.device)


@dataclass(frozen=True, slots=True)
@checked
class OnnxServed:
    """The model of an ONNX file, run by onnxruntime: its first input, whose first axis is the batch, and its first output."""

    path: Path
    form: InputForm
    threads: int = 1

    def load(self) -> Compute:
        """Make a session, and compute one batch."""
        runtime = needed("onnxruntime", "export")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = runtime.InferenceSession(str(self.path), options, providers=runtime.get_available_providers())
        name = session.get_inputs()[0].name

        def compute(batch: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            return list(session.run(None, {name: np.stack(batch)})[0])

        first = warmed(compute, [self.form.example()], str(self.path), self.form)[0]
        refuse_output(str(np.asarray(first).dtype))
        return compute


def warmed(compute: Compute, batch: Sequence[Any], what: str, form: InputForm) -> Sequence[np.ndarray]:
    """The results of a first batch. Raises CompositionError where the model, which is called `what`, cannot compute inputs of that form."""
    try:
        return compute(batch)
    except PolyrhythmError:
        raise
    except Exception as problem:  # whatever the user's own code or a runtime raises
        shape = " x ".join("any" if each is None else str(each) for each in form.shape)
        raise CompositionError(
            f"{what} cannot compute inputs of {shape} of {form.dtype}: {type(problem).__name__}: {problem}. Give the form of one request "
            "as `input` and `dtype`, without the axis of the batch."
        ) from problem


def refuse_output(dtype: str) -> None:
    """Raise CompositionError for a type of numbers that no answer can have."""
    if dtype not in _SENT:
        raise CompositionError(f"The model's output is of {dtype}, which no answer can have: return one of {', '.join(_SENT)}.")


_ONNX_TYPES = {each.onnx: each.numpy for each in NUMBER_TYPES}


def onnx_form(path: Path) -> InputForm:
    """The form of one input of an ONNX file. Raises CompositionError for a file that cannot be served in batches."""
    runtime = needed("onnxruntime", "export")
    try:
        inputs = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()
    except Exception as problem:  # onnxruntime has no common class of errors
        raise CompositionError(f"{path} is no model that onnxruntime loads: {problem}") from problem
    shape: Sequence[Any] = inputs[0].shape
    if len(inputs) != 1 or not shape or isinstance(shape[0], int) or inputs[0].type not in _ONNX_TYPES:
        found = ", ".join(f"{each.name} {each.shape} {each.type}" for each in inputs)
        raise CompositionError(
            f"{path} has the inputs {found}: it cannot be batched. Export it with one input of numbers whose first axis is dynamic."
        )
    return InputForm(tuple(each if isinstance(each, int) else None for each in shape[1:]), _ONNX_TYPES[inputs[0].type])


@dataclass(frozen=True, slots=True)
@checked
class EmulatedModel:
    """A model that takes the time of `profile` and returns its inputs: to try a site without its machines."""

    profile: LatencyProfile
    form: InputForm

    def load(self) -> Compute:
        """Sleep for as long as loading takes."""
        time.sleep(self.profile.loading)

        def compute(batch: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            time.sleep(self.profile.latency(len(batch)))
            return batch

        return compute
