"""The user's optimizer, built again where the weights are held: described as text, never as code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.tensors import Layout, without_gradient
from polyrhythm.core.trees import StateTree
from polyrhythm.core.weights.wrapped_optimizer import advice
from polyrhythm.errors import CompositionError

HOSTED: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    kind.__name__: kind
    for kind in (
        torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.Adadelta,
        torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Rprop, torch.optim.ASGD,
    )
}  # fmt: skip
"""Optimizers that treat every element by itself, so that a shard of the weights is all they need."""

_PART = re.compile(r"\[\d+:\d+\]$")
_HOW = frozenset({"params", "foreach", "fused", "capturable", "differentiable"})
"""Options that choose the implementation of a step, which a server on another device may lack; some would write to the gradient."""


class ParameterGroup(msgspec.Struct, frozen=True):
    """One parameter group: the names of its parameters and its options."""

    names: list[str]
    options: dict[str, Any]


class Recipe(msgspec.Struct, frozen=True):
    """An optimizer to build: the name of its class, and its parameter groups."""

    kind: str
    groups: list[ParameterGroup]


def describe(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> str:
    """The recipe of `optimizer` as JSON; `names` gives a parameter's name by its id.

    Raises CompositionError for a class that cannot run on a part of the weights.
    """
    kind = type(optimizer).__name__
    if HOSTED.get(kind) is not type(optimizer):
        raise CompositionError(
            f"{kind} cannot run at a server, which has only a part of the weights: use one of {', '.join(HOSTED)}, or a system whose "
            f"workers run the optimizer themselves (allreduce, ssp, sparknet, diloco, …).{advice(optimizer)}"
        )
    groups = []
    for group in optimizer.param_groups:
        options = {key: _plain(value) for key, value in group.items() if key not in _HOW and value is not None}
        groups.append(ParameterGroup([names[id(parameter)] for parameter in group["params"] if id(parameter) in names], options))
    return msgspec.json.encode(Recipe(kind, groups)).decode()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


class RemoteOptimizer:
    """The optimizer of `recipe` on the tensors of `layout`, which are views of `weights` (numel,) and move with it.

    Groups without an element in `layout` are left out; `places` are the indices of the others among all groups.
    """

    def __init__(self, recipe: str, weights: Tensor, layout: Layout) -> None:
        plan = msgspec.json.decode(recipe, type=Recipe)
        self.layout = layout
        self.parameters = {name: torch.nn.Parameter(view) for name, view in layout.named(weights).items()}
        groups = []
        for group in plan.groups:
            names = set(group.names)
            owned = [parameter for name, parameter in self.parameters.items() if _PART.sub("", name) in names]
            groups.append({**{k: tuple(v) if isinstance(v, list) else v for k, v in group.options.items()}, "params": owned})
        occupied = [group for group in groups if group["params"]]
        self.optimizer = _build(plan.kind, occupied) if occupied else None
        self.places = [k for k, group in enumerate(groups) if group["params"]]

    def step_on(self, gradient: Tensor, rates: tuple[float, ...]) -> None:
        """Step on `gradient` (numel,) with these learning rates of all groups."""
        if self.optimizer is None:
            return
        views = self.layout.views(gradient)
        missing = without_gradient([view.view(-1) for view in views])
        for parameter, part, absent in zip(self.parameters.values(), views, missing, strict=True):
            parameter.grad = None if absent else part
        for group, place in zip(self.optimizer.param_groups, self.places, strict=True):
            group["lr"] = rates[place]
        self.optimizer.step()

    def export(self) -> StateTree:
        return None if self.optimizer is None else self.optimizer.state_dict()

    def restore(self, state: StateTree) -> None:
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state)


def _build(kind: str, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """The optimizer, its first group's options as its defaults too: Adagrad's sums begin with the default, whatever its groups have."""
    accepted = inspect.signature(HOSTED[kind]).parameters.keys() - {"params"}
    return HOSTED[kind](groups, **{name: value for name, value in groups[0].items() if name in accepted})
