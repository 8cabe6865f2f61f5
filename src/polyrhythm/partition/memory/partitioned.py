"""Activations that are kept for the backward pass, divided among ranks that all have them (Rajbhandari et al., 2020, "ZeRO", 6.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from polyrhythm.partition.axis import Axis, near_equal, starts
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.kinds import BATCH_NORMS
from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style


@dataclass(frozen=True)
class PartitionedActivations:
    """Keep of a module its inputs only, of which each rank of `axis` keeps a part, and do its forward pass again in the backward pass.

    It is for a module whose inputs are equal at all ranks of `axis`, such as a block of a transformer that is divided over it: `inside` are
    the styles of modules within, by patterns of their names in it. A rank keeps 1 / P of the inputs' elements, and gathers each in one
    operation before the backward pass.
    """

    axis: str = "tp"
    inside: Mapping[str, Style] = field(default_factory=dict)

    @property
    def along(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.axis, *Cut(self.inside).axes)))

    def refusal(self, module: nn.Module, place: Place) -> str:
        for name, each in module.named_modules():
            if isinstance(each, BATCH_NORMS):
                return (
                    f"{name or 'it'} is a {type(each).__name__}, whose running statistics would be taken in both forward passes: divide "
                    "the modules beside it."
                )
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        Cut(self.inside).apply(module, place, name)
        return InputsInParts(module, place.axis(self.axis))


class InputsInParts(nn.Module):
    """The `whole` module, whose weights it has by the same names, with inputs that are kept in parts."""

    def __init__(self, whole: nn.Module, axis: Axis) -> None:
        super().__init__()
        for name, parameter in whole.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in whole.named_buffers(recurse=False):
            self.register_buffer(name, buffer, persistent=name not in whole._non_persistent_buffers_set)
        for name, child in whole.named_children():
            self.add_module(name, child)
        self._whole, self._axis = (whole,), axis  # in a tuple it is not a child

    def forward(self, *inputs: Any) -> Any:
        (whole,) = self._whole
        whole.training = self.training
        if not torch.is_grad_enabled():
            return whole(*inputs)
        attached = torch.zeros((), requires_grad=True)  # for inputs that need no gradients
        with saved_tensors_hooks(self.keep, self._gathered):
            return checkpoint(partial(_without_first, whole), attached, *inputs, use_reentrant=True)

    def keep(self, value: Tensor) -> Any:
        """What this rank keeps of an input."""
        if not value.dim():
            return value
        sizes, at = near_equal(value.numel(), self._axis.size), self._axis.index
        part = value.detach().reshape(-1).narrow(0, starts(sizes)[at], sizes[at]).clone()
        return part, value.shape

    def _gathered(self, kept: Any) -> Tensor:
        if isinstance(kept, Tensor):
            return kept
        part, shape = kept
        return self._axis.all_gather(part, 0, near_equal(shape.numel(), self._axis.size)).view(shape)


def _without_first(whole: nn.Module, attached: Tensor, *inputs: Any) -> Any:
    return whole(*inputs)
