"""Names of the dimensions of weights: a module says them when it is made, and rules divide the model by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from polyrhythm.errors import CompositionError

_NAMES = "_polyrhythm_dimensions"
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class NamedDimension:
    """The `name` of a dimension that consists of `groups` equal stretches, of which each is divided, in parts of whole `unit`s.

    Query, key and value in one are three groups, and the features of a head a unit.
    """

    name: str
    groups: int = 1
    unit: int = 1


Names = tuple[NamedDimension, ...]


def dimensions(module: Module, **names: tuple[str | NamedDimension, ...]) -> Module:
    """The same module, with the names of the dimensions of its own parameters noted.

    Raises CompositionError for a parameter that it has not, or that has another number of dimensions.

    Examples:
        >>> layer = dimensions(nn.Linear(8, 32), weight=("mlp", "width"), bias=("mlp",))
        >>> [each.name for each in dimensions_of(layer)["weight"]]
        ['mlp', 'width']
    """
    own = dict(module.named_parameters(recurse=False))
    for parameter, given in names.items():
        if parameter not in own:
            raise CompositionError(f"{type(module).__name__} has no parameter {parameter!r} of its own, but {', '.join(own) or 'none'}.")
        if len(given) != own[parameter].dim():
            raise CompositionError(
                f"{parameter} of {type(module).__name__} has {own[parameter].dim()} dimensions, and {len(given)} names are given: give "
                "one for each."
            )
    noted = {parameter: tuple(_dimension(each) for each in given) for parameter, given in names.items()}
    setattr(module, _NAMES, noted)
    return module


def dimensions_of(model: nn.Module) -> dict[str, Names]:
    """The names of the dimensions of all parameters of `model` that have them."""
    found: dict[str, Names] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        for parameter, names in getattr(module, _NAMES, {}).items():
            found[f"{path}.{parameter}".lstrip(".")] = names
    return found


def _dimension(given: str | NamedDimension) -> NamedDimension:
    return NamedDimension(given) if isinstance(given, str) else given
