"""The stages of a model: the model without the submodules of other ranks, under the names that they have in the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from torch import nn

from polyrhythm.errors import WorkloadError
from polyrhythm.partition.axis import starts
from polyrhythm.partition.pipeline.actions import StageGrid
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


def stages_at(model: nn.Module, sizes: Sequence[int], rank: int, grid: StageGrid, axis: str) -> Stages:
    """The stages of `rank`, of so many steps as `sizes` says for each stage. The model loses what this rank has no use for.

    Parameters are placed at the stages of `axis`; the others than the first that hold a tied one have copies.
    """
    steps = steps_of(model)
    tied, owners = _tied_at(rank, shared(model, steps, sizes, grid))
    _without_others(model, "", used_at(steps, sizes, grid)[rank])
    if grid.ranks > 1:
        for name, parameter in model.named_parameters():
            before = placement_of(parameter)
            placed(parameter, replace(before, axes=(*before.axes, axis), copy_of=owners.get(name, "")))
    parts = [range(start, start + size) for start, size in zip(starts(sizes), sizes, strict=True)]
    own = (parts[grid.stage(rank, chunk)] for chunk in range(grid.chunks))
    return Stages(model, tuple(tuple(Numbered(number, steps[number]) for number in part) for part in own), tied)


def shared(model: nn.Module, steps: Sequence[Step], sizes: Sequence[int], grid: StageGrid) -> list[dict[str, list[int]]]:
    """The parameters that more than one rank has: for each of its names the ranks that have it so."""
    used = used_at(steps, sizes, grid)
    every: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        every.setdefault(id(parameter), []).append(name)
    found = [
        {name: [rank for rank, names in enumerate(used) if any(within(name, each) for each in names)] for name in names}
        for names in every.values()
    ]
    return [names for names in found if len({rank for ranks in names.values() for rank in ranks}) > 1]


def used_at(steps: Sequence[Step], sizes: Sequence[int], grid: StageGrid) -> list[list[str]]:
    """The modules that each rank's steps name."""
    parts = [steps[start : start + size] for start, size in zip(starts(sizes), sizes, strict=True)]
    return [[name for part in parts[rank :: grid.ranks] for step in part for name in step.modules] for rank in range(grid.ranks)]


def _tied_at(rank: int, every: Sequence[dict[str, list[int]]]) -> tuple[tuple[Tied, ...], dict[str, str]]:
    """What the rank shares with others; and where it has a copy, by that one's name the owner's."""
    tied, owners = [], {}
    for names in every:
        holders = sorted({each for ranks in names.values() for each in ranks})
        if rank in holders:
            own = next(name for name, ranks in names.items() if rank in ranks)
            tied.append(Tied(own, tuple(holders)))
            if rank != holders[0]:
                owners[own] = next(name for name, ranks in names.items() if holders[0] in ranks)
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
