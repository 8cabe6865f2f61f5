"""A model as it leaves training: in evaluation mode on the CPU, with names of its inputs and outputs, and the dimensions that may vary."""

from __future__ import annotations

import copy
import inspect
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from polyrhythm.errors import ExportError, PolyrhythmError

BATCH = "batch"
"""The name of the dimension that counts samples."""
_REASON = 300


@dataclass(frozen=True, slots=True)
class ModelProgram:
    """A function of tensors: `model` in evaluation mode, and an `example` of its inputs, with at least two samples.

    `varying` are, for each input, the names of its dimensions that may have any size, by their place.
    """

    model: nn.Module
    example: tuple[Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    varying: tuple[Mapping[int, str], ...]

    @property
    def parameters(self) -> int:
        """The number of the model's parameters."""
        return sum(each.numel() for each in self.model.parameters())

    @property
    def single(self) -> tuple[Tensor, ...]:
        """The inputs of one sample: the first of the example."""
        return tuple(each[:1] if names.get(0) == BATCH else each for each, names in zip(self.example, self.varying, strict=True))

    @property
    def flops(self) -> int:
        """Floating-point operations of matrix products and convolutions for one sample, counted by torch."""
        with torch.no_grad(), FlopCounterMode(display=False) as counted:
            self.model(*self.single)
        return int(counted.get_total_flops())

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs by torch, in the order of `outputs`."""
        with torch.no_grad():
            return tuple(tensor for _, tensor in _named(self.model(*inputs), ""))

    def exported(self, most: int | None = None) -> torch.export.ExportedProgram:
        """The program as a graph of torch's operators, in which dimensions vary up to `most`. Raises ExportError where it cannot be one."""
        dimensions: dict[str, Any] = {}
        shapes = tuple(
            {place: dimensions.setdefault(name, torch.export.Dim(name, max=most)) for place, name in names.items()}
            for names in self.varying
        )
        try:
            with quiet():
                return torch.export.export(self.model, self.example, dynamic_shapes=self._shapes(shapes), strict=False)
        except Exception as problem:  # torch.export raises whatever the model's own code or its tracer does
            raise self._refusal(problem, tuple(dimensions)) from problem

    def _shapes(self, shapes: tuple[dict[int, Any], ...]) -> Any:
        """In the form that a forward with `*inputs` needs too."""
        kinds = [each.kind for each in inspect.signature(self.model.forward).parameters.values()]
        return (shapes,) if inspect.Parameter.VAR_POSITIONAL in kinds[:1] else shapes

    def _refusal(self, problem: Exception, dimensions: Sequence[str]) -> ExportError:
        text = str(problem)
        name = type(self.model).__name__
        if "onstraint" in text and ("specializ" in text or "violat" in text):
            return ExportError(
                f"{name} fixes a size that should vary ({', '.join(dimensions)}): its forward computes with a number in place of "
                f"x.shape[0], such as x.view(2, -1) where x.flatten(1) would do. Change that, or give varying={{}} for that one size."
            )
        return ExportError(
            f"{name} cannot be exported: {reason(problem)}. torch.export needs a forward without branches on values of tensors, and "
            "without code that is not torch's."
        )


def program_of(
    model: nn.Module,
    example: Tensor | Sequence[Tensor],
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    varying: Mapping[str, Sequence[int]] | None = None,
) -> ModelProgram:
    """The program of `model`, which is copied, on the tensors of `example`.

    Inputs are called as in the model's forward, and outputs `output`, or as in the dict that it returns; `inputs` and `outputs` are other
    names. `varying` are places of dimensions that may have any size, by input: by default the first of each, which counts samples.
    Raises ExportError for what is no such model or example.
    """
    if not isinstance(model, nn.Module):
        raise ExportError(f"{type(model).__name__} is no model: give a torch.nn.Module, and its weights in it.")
    given = (example,) if isinstance(example, Tensor) else tuple(example)
    if not given or not all(isinstance(each, Tensor) for each in given):
        raise ExportError("The example is not made of tensors: give the inputs of a forward pass, such as torch.zeros(1, 1, 8, 8).")
    try:
        moved = copy.deepcopy(model).cpu().eval()
    except Exception as problem:
        raise ExportError(f"{type(model).__name__} cannot be copied: {reason(problem)}. Give one that copy.deepcopy can copy.") from problem
    moved.requires_grad_(False)
    named = _names("input", inputs, _parameters(model, len(given)))
    places = _places(named, given, varying)
    tensors = tuple(_several(each.detach().cpu(), names) for each, names in zip(given, places, strict=True))
    try:
        with torch.no_grad():
            found = [name for name, _ in _named(moved(*tensors), "")]
    except PolyrhythmError:
        raise
    except Exception as problem:
        raise ExportError(
            f"{type(model).__name__} cannot compute the example of shapes {', '.join(str(tuple(each.shape)) for each in given)}: "
            f"{reason(problem)}. Give inputs as it gets them in training."
        ) from problem
    return ModelProgram(moved, tensors, named, _names("output", outputs, found), places)


def reason(problem: Exception) -> str:
    """The first sentence of an error of torch's or the model's."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:_REASON].rstrip(". ")


@contextmanager
def quiet() -> Iterator[None]:
    """Without what exporters log and warn of about themselves: none of it is about the user's model."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        logging.disable(before)


def _parameters(model: nn.Module, count: int) -> list[str]:
    """The names of the first arguments of the model's forward."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [each.name for each in inspect.signature(model.forward).parameters.values() if each.kind in positional][:count]
    return found if len(found) == count else [f"input_{k}" for k in range(count)]


def _names(what: str, given: Sequence[str] | None, found: Sequence[str]) -> tuple[str, ...]:
    """The names that were given, or those that were found."""
    names = tuple(found if given is None else given)
    if len(names) != len(found) or len(set(names)) != len(names) or not all(isinstance(each, str) and each for each in names):
        raise ExportError(f"{list(names)} are no names of the {what}s, of which there are {len(found)}: give {len(found)} different ones.")
    return names


def _places(names: Sequence[str], given: Sequence[Tensor], varying: Mapping[str, Sequence[int]] | None) -> tuple[Mapping[int, str], ...]:
    """The varying dimensions of each input; the first dimension has one name in all inputs that have as many samples."""
    chosen = {name: (0,) if tensor.ndim else () for name, tensor in zip(names, given, strict=True)} if varying is None else varying
    if unknown := sorted(set(chosen) - set(names)):
        raise ExportError(f"varying names {unknown[0]!r}, which is no input: there are {', '.join(names)}.")
    samples = next((len(tensor) for tensor in given if tensor.ndim), 0)
    found: list[Mapping[int, str]] = []
    for name, tensor in zip(names, given, strict=True):
        own: dict[int, str] = {}
        for place in chosen.get(name, ()):
            if not 0 <= place < tensor.ndim:
                raise ExportError(f"varying names dimension {place} of {name}, which has {tensor.ndim}: give one of these, from 0.")
            own[place] = BATCH if place == 0 and len(tensor) == samples else f"{name}_{place}"
        found.append(own)
    return tuple(found)


def _several(tensor: Tensor, names: Mapping[int, str]) -> Tensor:
    """`tensor` with at least two of what may vary, because torch.export takes a size of 1 for one that is always so."""
    for place in names:
        if tensor.shape[place] == 1:
            tensor = torch.cat([tensor, tensor], dim=place)
    return tensor.contiguous()


def _named(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of what a model returns, with their names."""
    if isinstance(value, Tensor):
        yield name or "output", value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _named(each, f"{name}_{key}" if name else str(key))
    elif isinstance(value, (tuple, list)):
        for k, each in enumerate(value):
            yield from _named(each, f"{name or 'output'}_{k}" if len(value) > 1 else name)
    elif value is not None:
        raise ExportError(f"The model returns a {type(value).__name__}: return tensors, or tuples, lists and dicts of them.")
