"""The stages of a model: the model without the submodules of other ranks, under the names that they have in the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from torch import nn

from polyrhythm.errors import WorkloadError
from polyrhythm.partition.axis import starts
from polyrhythm.partition.pipeline.actions import Grid
from polyrhythm.partition.pipeline.step import Step, steps_of, within
from polyrhythm.partition.placement import placed, placement_of


@dataclass(frozen=True, slots=True)
class Tied:
    """A parameter, here called `name`, of which the `holders`, ranks in their order, have a copy each."""

    name: str
    holders: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Numbered:
    """A step with its number in the model."""

    number: int
    step: Step


@dataclass(frozen=True, slots=True)
class Stages:
    """What a rank has: the `model` without the others' submodules, the steps of each of its chunks, and what it has in common."""

    model: nn.Module
    chunks: tuple[tuple[Numbered, ...], ...]
    tied: tuple[Tied, ...]


def stages_at(model: nn.Module, sizes: Sequence[int], rank: int, grid: Grid, axis: str) -> Stages:
    """The stages of `rank`, of so many steps as `sizes` says for each stage. The model loses what this rank has no use for.

    Parameters are placed at the stages of `axis`; the others than the first that hold a tied one have copies.
    """
    steps = steps_of(model)
    parts = [range(start, start + size) for start, size in zip(starts(sizes), sizes, strict=True)]
    names = [
        [name for part in parts[each :: grid.ranks] for number in part for name in steps[number].modules] for each in range(grid.ranks)
    ]
    tied, owners = _tied(model, names, rank)
    _without_others(model, "", names[rank])
    if grid.ranks > 1:
        for parameter in model.parameters():
            before = placement_of(parameter)
            copy_of = owners.get(id(parameter), "")
            placed(parameter, replace(before, axes=(*before.axes, axis), copy_of=copy_of))
    own = (parts[grid.stage(rank, chunk)] for chunk in range(grid.chunks))
    return Stages(model, tuple(tuple(Numbered(number, steps[number]) for number in part) for part in own), tied)


def _tied(model: nn.Module, names: list[list[str]], rank: int) -> tuple[tuple[Tied, ...], dict[int, str]]:
    """What this rank shares with others; and for copies, by the parameter's id, the name of what they are copies of."""
    every: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        every.setdefault(id(parameter), []).append(name)
    tied, owners = [], {}
    for key, aliases in every.items():
        at = {alias: [each for each, used in enumerate(names) if any(within(alias, name) for name in used)] for alias in aliases}
        holders = sorted({each for ranks in at.values() for each in ranks})
        if rank not in holders or len(holders) == 1:
            continue
        tied.append(Tied(next(alias for alias in aliases if rank in at[alias]), tuple(holders)))
        if rank != holders[0]:
            owners[key] = next(alias for alias in aliases if holders[0] in at[alias])
    return tuple(tied), owners


def _without_others(module: nn.Module, prefix: str, kept: Sequence[str]) -> None:
    for name, child in module._modules.items():  # with those that stand in two places
        path = f"{prefix}{name}"
        if child is None or any(within(path, each) for each in kept):
            continue
        if any(within(each, path) for each in kept):
            _without_others(child, f"{path}.", kept)
        else:
            setattr(module, name, Elsewhere(path))
    for name in list(module._parameters):
        if not any(within(f"{prefix}{name}", each) for each in kept):
            delattr(module, name)


class Elsewhere(nn.Module):
    """In the place of a submodule that another stage has: those beside it in a list keep their numbers."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def forward(self, *given: object) -> NoReturn:
        raise WorkloadError(f"{self._name} is used in a stage that does not have it: name it in the modules of the step that uses it.")
