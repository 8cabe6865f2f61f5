"""The division of a model's parameters among the exchanges of a strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from polyrhythm.core.protocols.partition import divided_over, part_of
from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.core.strategy.strategy_plan import PlannedExchange, StrategyPlan
from polyrhythm.errors import CompositionError

_EXCHANGED = (torch.float32, torch.float64)
_REAL = {torch.complex64: "torch.float32", torch.complex128: "torch.float64"}


@dataclass(frozen=True, slots=True)
class Share:
    """The parameters, by name, of one exchange that are of one type, on one device and divided alike, the `kind`-th such in that exchange.

    `modules` own them, by the parameters' names.
    """

    planned: PlannedExchange
    kind: int
    named: Sequence[tuple[str, nn.Parameter]]
    modules: Mapping[str, nn.Module]


def divided(model: nn.Module, optimizer: torch.optim.Optimizer, plan: StrategyPlan) -> list[Share]:
    """The shares of the parameters of `model` that need gradients and that `optimizer` holds, in the order of exchanges.

    They are for the number of workers with which the run began: each exchange keeps its parameters when the crew changes.

    Raises CompositionError for a parameter that two selections take, a selection that takes none, and types that cannot be exchanged.
    """
    named = _trained(model, optimizer)
    parts = dict.fromkeys(part_of(parameter) for _, parameter in named)  # what is exchanged together is selected together
    candidates = [each for part in parts for each in _candidates(model, [n for n in named if part_of(n[1]) == part], plan.first)]
    modules = {candidate.name: candidate.module for candidate in candidates}
    taken: dict[str, PlannedExchange] = {}
    for planned in {each.number: each for each in plan.exchanges if each.selection is not None}.values():
        assert planned.selection is not None
        names = [candidate.name for candidate in candidates if planned.selection.takes(candidate)]
        for name in names:
            if name in taken:
                raise CompositionError(
                    f"{taken[name].selection!r} and {planned.selection!r} both select {name}, but a parameter can be in one exchange only: "
                    "make one of the selections narrower."
                )
            taken[name] = planned
        if not names and not planned.selection.may_be_empty:
            raise CompositionError(
                f"{planned.selection!r} selects no parameter of {type(model).__name__}, which has {_shown(named)}: check its spelling, "
                "or leave the selection out."
            )
    rest = plan.exchanges[-1]

    def belongs(name: str, parameter: nn.Parameter, planned: PlannedExchange) -> bool:
        return taken.get(name, rest).number == planned.number and planned.part in (None, part_of(parameter))

    return [share for planned in plan.exchanges for share in _shares(planned, [n for n in named if belongs(*n, planned)], modules)]


def _shares(planned: PlannedExchange, named: Sequence[tuple[str, nn.Parameter]], modules: Mapping[str, nn.Module]) -> Iterator[Share]:
    kinds = dict.fromkeys(_kind(parameter) for _, parameter in named)
    for number, kind in enumerate(kinds):
        dtype = kind[0]
        if dtype.is_complex:
            raise CompositionError(
                f"The parameters are {dtype}, and merges, codecs and norms are for real numbers: make the parameters real, with "
                f"torch.view_as_real(parameter.data) of {_REAL.get(dtype, 'torch.float32')}, and take torch.view_as_complex(parameter) in "
                "the forward pass."
            )
        if dtype not in _EXCHANGED:
            raise CompositionError(
                f"The parameters are {dtype}, which loses small updates and which codecs cannot encode: keep them in torch.float32, and "
                f"use torch.autocast to compute in half precision."
            )
        yield Share(planned, number, [(name, p) for name, p in named if _kind(p) == kind], modules)


def _kind(parameter: nn.Parameter) -> tuple[torch.dtype, torch.device, tuple[str, ...]]:
    """What is exchanged apart. Parameters that all workers of a replica have whole get the same bits at all of them, by themselves."""
    return parameter.dtype, parameter.device, divided_over(parameter)


def _trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[str, nn.Parameter]]:
    if not list(model.parameters()):
        raise CompositionError(f"{type(model).__name__} has no parameters, so there is nothing to train: attach a model with parameters.")
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad and id(p) in held]
    if not named:
        raise CompositionError("The optimizer has none of the model's parameters: build it from model.parameters() before attaching.")
    known = {id(parameter) for parameter in model.parameters()}
    strangers = sum(id(p) not in known for group in optimizer.param_groups for p in group["params"])
    if strangers:
        raise CompositionError(
            f"The optimizer has {strangers} parameters that do not belong to the model: attach the module that contains all of them."
        )
    return named


def _candidates(model: nn.Module, named: Sequence[tuple[str, nn.Parameter]], workers: int) -> Iterator[ParameterInfo]:
    paths = [name.rpartition(".")[0] for name, _ in named]
    places = {path: place for place, path in enumerate(dict.fromkeys(paths))}
    for path, (name, parameter) in zip(paths, named, strict=True):
        local = name.rpartition(".")[2]
        yield ParameterInfo(name, parameter, model.get_submodule(path), local, workers, places[path])


_MANY = 6


def _shown(named: Sequence[tuple[str, nn.Parameter]]) -> str:
    names = [name for name, _ in named]
    return ", ".join(names[:_MANY]) + (f" and {len(names) - _MANY} more" if len(names) > _MANY else "")
