"""Modules of which every rank has all weights, and sees another part of the data: of a sequence, of an image, of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.moves import replicate_together
from polyrhythm.partition.place import Place


@dataclass(frozen=True, slots=True)
class EqualWeights:
    """Keep a module whole where its inputs are divided over `axes`: the gradients of its weights are added up over them.

    It is for modules that treat the divided parts independently, such as linear layers and layer norms on tokens. Each call of the module
    adds up the gradients of all of its weights in one operation for each axis.
    """

    axes: tuple[str, ...]

    @property
    def along(self) -> tuple[str, ...]:
        return self.axes

    def refusal(self, module: nn.Module, place: Place) -> str:
        if any(isinstance(each, _BatchNorm) for each in module.modules()):
            return "A batch norm computes its statistics over what is divided: use a style that adds them up, such as SpatialNorm."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        return EqualWeightsModule(place.keep(module, name), [place.axis(axis) for axis in self.axes])


class EqualWeightsModule(nn.Module):
    """The `whole` module, whose weights it has by the same names, on this rank's part of its inputs."""

    def __init__(self, whole: nn.Module, axes: Sequence[Axis]) -> None:
        super().__init__()
        for name, parameter in whole.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in whole.named_buffers(recurse=False):
            self.register_buffer(name, buffer, persistent=name not in whole._non_persistent_buffers_set)
        for name, child in whole.named_children():
            self.add_module(name, child)
        self._whole, self._axes = (whole,), tuple(axes)  # in a tuple it is not a child

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        (whole,) = self._whole
        whole.training = self.training
        own = {**dict(self.named_parameters()), **dict(self.named_buffers())}  # which `to` may have replaced
        return functional_call(whole, own | replicated(self, self._axes), args, kwargs)


def replicated(module: nn.Module, axes: Sequence[Axis]) -> dict[str, Any]:
    """The trained parameters of a module by name, each with a part of its gradient at every rank of the axes."""
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    values: Sequence[Any] = [module.get_parameter(name) for name in names]
    for axis in axes:
        values = replicate_together(values, axis)
    return dict(zip(names, values, strict=True))
