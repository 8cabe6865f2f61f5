"""Modules of which every rank has all weights, and sees another part of the data: of a sequence, of an image, of the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.func import functional_call

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.kinds import BATCH_NORMS
from polyrhythm.partition.moves import replicate_together
from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style


@dataclass(frozen=True, slots=True)
class EqualWeights:
    """Keep a module whole where its inputs are divided over `axes`: the gradients of its weights are added up over them.

    It is for modules that treat the divided parts independently, such as linear layers and layer norms on tokens. Each call of the module
    adds up the gradients of all of its weights in one operation for each axis.

    `inside` are styles for modules within it that ask other ranks: each replaces those that it does not refuse.
    """

    axes: tuple[str, ...]
    inside: tuple[Style, ...] = ()

    @property
    def along(self) -> tuple[str, ...]:
        return self.axes

    def refusal(self, module: nn.Module, place: Place) -> str:
        return self.unanswered(module, place, BATCH_NORMS)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        asking = dict(self._asking(module, place))
        for path, style in asking.items():
            parent, _, own = path.rpartition(".")
            local = style.local(module.get_submodule(path), f"{name}.{path}".lstrip("."), place)
            setattr(module.get_submodule(parent), own, local)
        for path, each in module.named_modules():
            if not f"{path}.".startswith(tuple(f"{asked}." for asked in asking)):
                for own, parameter in list(each.named_parameters(recurse=False)):
                    setattr(each, own, place.parameter(parameter, ".".join(filter(None, (name, path, own)))))
        return EqualWeightsModule(module, [place.axis(axis) for axis in self.axes], tuple(asking))

    def unanswered(self, module: nn.Module, place: Place, kinds: tuple[type[nn.Module], ...]) -> str:
        """A sentence about a module of these kinds within it for which there is no style; "" if all have one."""
        for name, each in module.named_modules():
            if isinstance(each, kinds) and not any(name and not style.refusal(each, place) for style in self.inside):
                remedy = f"give inside=(...) a style for {name}" if name else "give it a style of its own"
                return f"{name or 'This'} is a {type(each).__name__}, which needs what other ranks have: {remedy}."
        return ""

    def _asking(self, module: nn.Module, place: Place) -> Iterator[tuple[str, Style]]:
        """The modules within it that are replaced, and their styles."""
        for path, each in module.named_modules():
            style = next((style for style in self.inside if path and not style.refusal(each, place)), None)
            if style is not None:
                yield path, style


class EqualWeightsModule(nn.Module):
    """The `whole` module, whose weights it has by the same names, on this rank's part of its inputs."""

    def __init__(self, whole: nn.Module, axes: Sequence[Axis], asking: tuple[str, ...] = ()) -> None:
        super().__init__()
        for name, parameter in whole.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in whole.named_buffers(recurse=False):
            self.register_buffer(name, buffer, persistent=name not in whole._non_persistent_buffers_set)
        for name, child in whole.named_children():
            self.add_module(name, child)
        self._whole, self._axes = (whole,), tuple(axes)  # in a tuple it is not a child
        self._asking = tuple(f"{path}." for path in asking)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        (whole,) = self._whole
        whole.training = self.training
        own = {**dict(self.named_parameters()), **dict(self.named_buffers())}  # which `to` may have replaced
        return functional_call(whole, own | replicated(self, self._axes, self._asking), args, kwargs)


def replicated(module: nn.Module, axes: Sequence[Axis], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The trained parameters of a module by name, each with a part of its gradient at every rank of the axes.

    Those whose names begin as one of `without` see to their gradients themselves.
    """
    trained = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    names = [name for name in trained if not name.startswith(without)]
    values: Sequence[Any] = [module.get_parameter(name) for name in names]
    for axis in axes:
        values = replicate_together(values, axis)
    return dict(zip(names, values, strict=True))
