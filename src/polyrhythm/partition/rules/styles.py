"""From rules to styles: what a divided dimension of a weight means for its module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.rules.legality import refuse_illegal
from polyrhythm.partition.rules.names import NamedDimension, Names, dimensions_of
from polyrhythm.partition.style import Style
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.tensor_parallel.vocabulary import Vocabulary


def styles_by(model: nn.Module, rules: Mapping[str, str]) -> dict[str, Style]:
    """The style of each module whose weight has a dimension that `rules` divide, by the module's name in `model`.

    Outputs of linear layers become `Columns`, inputs `Rows`, and rows of embeddings `Vocabulary`. What is divided stays so from a layer
    whose outputs have the name to those whose inputs have it; where there is no such layer, outputs are gathered and inputs are divided.

    Raises CompositionError for illegal rules, and for a weight that cannot be divided so.
    """
    named = dimensions_of(model)
    refuse_illegal(rules, named)
    weights = {path.rpartition(".")[0]: names for path, names in named.items() if path.rpartition(".")[2] == "weight"}
    linear = [names for path, names in weights.items() if isinstance(model.get_submodule(path), nn.Linear)]
    ends = _Ends({names[0].name for names in linear}, {names[1].name for names in linear})
    found = dict[str, Style]()
    for path, names in weights.items():
        divided = [(place, each) for place, each in enumerate(names) if each.name in rules]
        if len(divided) > 1:
            raise CompositionError(
                f"{path}.weight would be divided over {' and '.join(rules[each.name] for _, each in divided)} at once: leave one of "
                f"{' and '.join(each.name for _, each in divided)} whole, or give the module a style for two axes, such as Summa."
            )
        for place, each in divided:
            found[path] = _style(path, model.get_submodule(path), place, each, rules[each.name], ends)
    _refuse_others(named, rules, found)
    return found


@dataclass(frozen=True, slots=True)
class _Ends:
    """The names that are outputs of some linear layer, and those that are inputs."""

    outputs: set[str]
    inputs: set[str]


def _style(path: str, module: nn.Module, place: int, each: NamedDimension, axis: str, ends: _Ends) -> Style:
    match module, place:
        case nn.Linear(), 0:
            return Columns(axis, each.groups, each.unit, gathered=each.name not in ends.inputs)
        case nn.Linear(), 1:
            return Rows(axis, each.unit, whole_input=each.name not in ends.outputs)
        case nn.Embedding(), 0:
            return Vocabulary(axis)
    raise CompositionError(
        f"{each.name!r} is dimension {place} of the weight of {path} ({type(module).__name__}), and no style divides that: leave "
        f"{each.name!r} whole, or give the module a style of its own in Cut."
    )


def _refuse_others(named: Mapping[str, Names], rules: Mapping[str, str], found: Mapping[str, Style]) -> None:
    for tensor, names in named.items():
        for each in names:
            if each.name in rules and tensor.rpartition(".")[0] not in found:
                raise CompositionError(
                    f"{each.name!r} is a dimension of {tensor}, whose module has no weight that is divided with it: leave {each.name!r} "
                    "whole."
                )
