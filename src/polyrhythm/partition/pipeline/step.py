"""A model as steps that are done one after another: what a pipeline can cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
class Step:
    """`function` of what the step before returned, a tensor or a tuple of tensors, and the names of the `modules` that it uses.

    Names are those of submodules, such as "blocks.3", or of parameters of the model itself.
    """

    function: Callable[[Any], Any]
    modules: tuple[str, ...]


def steps_of(model: nn.Module) -> list[Step]:
    """The steps of a model: those that its method `sequence()` returns, or the modules of an `nn.Sequential`, nested ones too.

    Raises CompositionError for another model, and for a parameter that no step names.
    """
    sequence: Callable[[], Sequence[Step]] | None = getattr(model, "sequence", None)
    if sequence is not None:
        found = [_by_name(model, step) for step in sequence()]
    elif _plain(model):
        found = [Step(_Named(model, name), (name,)) for name in _flat(model, "")]
    else:
        raise CompositionError(
            f"{type(model).__name__} is no nn.Sequential and has no method sequence(), so a pipeline cannot cut it: give it one that "
            "returns a list of Step(function, modules)."
        )
    named = [name for step in found for name in step.modules]
    if lost := [name for name, _ in model.named_parameters(remove_duplicate=False) if not any(within(name, each) for each in named)]:
        raise CompositionError(f"No step of {type(model).__name__} names {lost[0]}: add it to the modules of the step that uses it.")
    return found


def within(name: str, module: str) -> bool:
    """Whether `name` is that of `module`, or of something in it."""
    return name == module or name.startswith(f"{module}.")


@dataclass(frozen=True, slots=True)
class _Named:
    """The submodule that has this name when it is called: a rank may have put its own in the place of the model's."""

    model: nn.Module
    name: str

    def __call__(self, value: Any) -> Any:
        return self.model.get_submodule(self.name)(value)


def _by_name(model: nn.Module, step: Step) -> Step:
    for name in step.modules:
        if dict(model.named_modules(remove_duplicate=False)).get(name) is step.function:
            return Step(_Named(model, name), step.modules)
    return step


def _plain(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _flat(module: nn.Module, prefix: str) -> Iterator[str]:
    for name, child in module._modules.items():  # with those that stand in two places
        assert child is not None
        if _plain(child):
            yield from _flat(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
