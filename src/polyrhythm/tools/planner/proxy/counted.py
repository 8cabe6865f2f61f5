"""The true model by its shapes: its parameters, and the operations of a step, without its memory and without computing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.simulator.counting import OperationCounter
from polyrhythm.core.tensors import Layout
from polyrhythm.core.torch_private.one_process import number_of_tensor
from polyrhythm.core.training.run import attempt
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.hardware.devices import Profile
from polyrhythm.systems import find
from polyrhythm.tools.measuring.replay import StepShape
from polyrhythm.tools.measuring.timing import shape_of

META = "counted on shapes, on the device meta"
STEP = "counted in a few real steps"


@dataclass(frozen=True, slots=True)
class CountedModel:
    """The `parameters` of a model, and the `shape` of its steps with their operations; `how` they were counted."""

    parameters: int
    shape: StepShape
    how: str


def counted(train: Train, samples: int) -> CountedModel:
    """Count the model of `train`, whose step has so many samples, on shapes; where its code needs values, in a few real steps.

    Products of matrices are counted, forward and backward; what is element by element is not. Raises PolyrhythmErrors of the JOB.
    """
    try:
        shape = _on_shapes(train, samples)
    except PolyrhythmError:
        shape = shape_of(train)
        return CountedModel(_parameters(shape), shape, STEP)
    return CountedModel(_parameters(shape), shape, META)


def _parameters(shape: StepShape) -> int:
    return shape.layout.numel + sum(each.numel() for each in shape.frozen.values())


class _EnoughError(PolyrhythmError):
    """Ends the training function at its first step."""


@dataclass(slots=True)
class _Seen:
    models: list[nn.Module] = field(default_factory=list)
    flops: float = 0.0
    stepped: bool = False


def _on_shapes(train: Train, samples: int) -> StepShape:
    """The shape of the first step, none of whose parameters has memory. Raises PolyrhythmErrors where the code needs their values."""
    seen = _Seen()

    def on_meta(worker: Worker) -> None:
        counter = OperationCounter()

        def step(*given: Any, **named: Any) -> None:
            seen.flops, seen.stepped = counter.flops, True
            raise _EnoughError

        def attach(model: nn.Module, optimizer: torch.optim.Optimizer, **named: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
            seen.models.append(model)
            optimizer.step = step  # type: ignore[method-assign, assignment]
            return model, optimizer

        worker.attach = attach  # type: ignore[method-assign, assignment]
        worker.evaluate = _nothing  # type: ignore[method-assign]
        with _parameters_without_memory(), _ShapesOnly(), counter:  # type: ignore[no-untyped-call]
            train(worker)

    on = Simulator(network=Instant(), devices=Profile("untimed", (1.0,)))
    tried = attempt(on_meta, workers=1, strategy=find("single"), on=on)
    if not seen.stepped or len(seen.models) != 1:
        raise tried.error or CompositionError("The training function attaches several models, or takes no step.")
    return _shape(seen.models[0], seen.flops, samples)


def _nothing(*given: object, **named: object) -> None:
    """Evaluate nothing: there are no values."""


@contextmanager
def _parameters_without_memory() -> Iterator[None]:
    """Modules that are made meanwhile get parameters with shapes only; memory that nobody writes to is never taken."""

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> Any:
        if parameter is None or parameter.is_meta:
            return parameter
        return nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)

    handle = register_module_parameter_registration_hook(registered)
    try:
        yield
    finally:
        handle.remove()


class _ShapesOnly(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Whatever meets a tensor without memory becomes one: batches, indices and masks need not be made otherwise for it."""

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        if any(each.is_meta for each in tree_leaves((args, named)) if isinstance(each, Tensor)):
            if func is number_of_tensor.default:
                return 0.0  # such as a loss that is reported
            args, named = tree_map(_on_meta, (args, named))
        return func(*args, **named)


def _on_meta(each: Any) -> Any:
    if isinstance(each, torch.device):
        return torch.device("meta")
    return torch.empty_like(each, device="meta") if isinstance(each, Tensor) and not each.is_meta else each


def _shape(model: nn.Module, flops: float, samples: int) -> StepShape:
    named = list(model.named_parameters())
    layout = Layout.of((name, each) for name, each in named if each.requires_grad)
    frozen = {name: torch.zeros(each.shape, dtype=each.dtype) for name, each in named if not each.requires_grad}
    buffers = {name: torch.zeros(each.shape, dtype=each.dtype) for name, each in model.named_buffers()}
    dtype = next((each.dtype for _, each in named), torch.float32)
    classes = {path: tuple(kind.__name__ for kind in type(module).__mro__) for path, module in model.named_modules()}
    return StepShape(layout, flops, samples, (), frozen, buffers, dtype, classes)
