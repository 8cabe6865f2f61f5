"""The legal rules of a model, and those with which a rank needs the least memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product

from torch import nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.pipeline.pipelined import without_memory
from polyrhythm.partition.place import Place
from polyrhythm.partition.rules.names import dimensions_of
from polyrhythm.partition.rules.styles import styles_by
from polyrhythm.partition.style import Style

_MOST = 20_000


def legal_rules(model: nn.Module, sizes: Mapping[str, int]) -> Iterator[tuple[dict[str, str], dict[str, Style]]]:
    """All rules that divide `model` over axes of these `sizes`, with the styles that they mean; the first divides nothing.

    Raises CompositionError where there are too many to try.
    """
    names = sorted({each.name for of_tensor in dimensions_of(model).values() for each in of_tensor})
    choices = (None, *sizes)
    if len(choices) ** len(names) > _MOST:
        raise CompositionError(
            f"{len(names)} names over {len(sizes)} axes are {len(choices) ** len(names)} rules: name fewer dimensions, or give rules."
        )
    for axes in product(choices, repeat=len(names)):
        rules = {name: axis for name, axis in zip(names, axes, strict=True) if axis is not None}
        try:
            yield rules, styles_by(model, rules)
        except CompositionError:
            continue  # no layout: the next


def memory_minimal(model: nn.Module, sizes: Mapping[str, int]) -> dict[str, str]:
    """The legal rules with which a rank has the fewest bytes of parameters, on axes of these `sizes`; of equals those with fewest names.

    Examples:
        >>> from polyrhythm.partition.rules.names import dimensions
        >>> memory_minimal(dimensions(nn.Linear(2, 9), weight=("mlp", "width"), bias=("mlp",)), {"tp": 2})
        {'mlp': 'tp'}
    """
    best: tuple[float, int, dict[str, str]] = (math.inf, 0, {})
    for rules, styles in legal_rules(model, sizes):
        cost = (rank_nbytes(model, styles, sizes), len(rules))
        if cost < best[:2]:
            best = (*cost, rules)
    return best[2]


def rank_nbytes(model: nn.Module, styles: Mapping[str, Style], sizes: Mapping[str, int]) -> float:
    """The bytes of parameters of the rank that has most, the first of each axis; infinite where a style cannot divide its module."""
    axes: dict[str, Axis] = {name: CountedAxis(name, size, 0) for name, size in sizes.items()}
    place, whole = Place(axes, device="meta"), without_memory(model)
    kept = {id(each): each for name, module in whole.named_modules() if name not in styles for each in module.parameters(recurse=False)}
    parameters = list(kept.values())
    for name, style in styles.items():
        module = whole.get_submodule(name)
        if style.refusal(module, place):
            return math.inf
        parameters += style.local(module, name, place).parameters()
    return float(sum(each.numel() * each.element_size() for each in {id(each): each for each in parameters}.values()))
