"""Checks a model, its optimizer and a strategy against a recipe for large minibatches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from polyrhythm import systems
from polyrhythm.core.protocols.merge import LATE, scale_of_all
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError

_SHOWN = 3
_CLOSE = 1.01
_MUCH, _SEVERAL = 0.5, 3
"""Less momentum, or fewer workers, did no harm where this was measured (docs/commands.md)."""


def lint_recipe(model: nn.Module, optimizer: torch.optim.Optimizer, strategy: str | Strategy, workers: int = 2) -> list[str]:
    """The missing parts of the recipe of Goyal et al. (2017, sections 2 to 5) for `workers`, each a sentence that says what to do.

    Looks at the learning rate that the strategy makes of the optimizer's, at weight decay of biases and of the parameters of norms, and at
    the gamma of the last batch norm in residual blocks. Its other pitfalls cannot be met with: see `large-minibatch`. `check_recipe` and
    `polyrhythm check` also run a training function, and look at what it does. Raises CompositionError for less than one worker, and
    for unknown systems.

    Examples:
        >>> layer = nn.Linear(2, 2)
        >>> lint_recipe(layer, torch.optim.SGD(layer.parameters(), lr=0.1), "large-minibatch", workers=8)
        []
    """
    if workers < 1:
        raise CompositionError(f"A recipe for workers={workers} is for nobody: give 1 or more.")
    chosen = systems.resolve(strategy)
    together = chosen.workers(workers)
    return [
        *rate_findings(chosen, together, 1.0, warms_up=False),
        *momentum_findings(chosen, optimizer, together),
        *model_findings(model, optimizer),
    ]


def model_findings(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """The findings of `lint_recipe` that do not depend on the strategy."""
    findings = []
    if decayed := _decayed_vectors(model, optimizer):
        findings.append(
            f"Weight decay is applied to {_some(decayed)}: biases, and gamma and beta of norms, do without (Goyal et al., 2017), so put "
            'all parameters of one dimension in a group of the optimizer with "weight_decay": 0.'
        )
    if last := [name for name, norm in _last_norms(model) if norm.weight is not None and norm.weight.detach().count_nonzero()]:
        findings.append(
            f"The last batch norm of residual blocks begins with a gamma that is not zero in {_some(last)}: with zeros every block begins "
            "as the identity, which makes the first steps easier (Goyal et al., 2017), so call torch.nn.init.zeros_ on its weight."
        )
    return findings


def momentum_findings(strategy: Strategy, optimizer: torch.optim.Optimizer, workers: int) -> list[str]:
    """A finding if the optimizer has momentum where updates come late and one by one: that acts as momentum too, and the two add up."""
    momentum = max((float(group.get("momentum", 0.0)) for group in optimizer.param_groups), default=0.0)
    if workers < _SEVERAL or momentum < _MUCH or not strategy.exchange.agreement.consistency.traits.order_matters:
        return []
    return [
        f"The optimizer has momentum {momentum:g}, and under {strategy.name} the updates of {workers} workers come late and one by one, "
        f"which acts as momentum of about {1 - 1 / workers:.2g} besides (Mitliagkas et al., 2016): give less momentum, or a smaller "
        "learning rate, and compare with one worker alone."
    ]


def rate_findings(strategy: Strategy, workers: int, ratio: float, *, warms_up: bool) -> list[str]:
    """A finding if the learning rate does not follow the batch, or starts too high: the training function multiplies it by `ratio` for
    `workers`, and perhaps `warms_up`.
    """
    agreement = strategy.exchange.agreement
    if workers == 1 or not agreement.payload.is_gradient or agreement.consistency.traits.order_matters:
        return []
    first, later = (scale_of_all(agreement.merge, clock, workers) for clock in (0, LATE))
    if first is None or later is None:
        return []
    if ratio * later < _CLOSE:
        return [
            f"{workers} workers average their gradients, and the learning rate is that of one: a step on {workers} times the batch may be "
            f"{workers} times as long (Goyal et al., 2017), so take large-minibatch, or merge=LinearScaling(warmup), unless the rate was "
            "chosen for the batch of all."
        ]
    if first * ratio >= _CLOSE and not warms_up:
        return [
            f"The learning rate is {first * ratio:g} times that of one worker from the first step on: let it grow to that over some epochs "
            "(section 2.2), as LinearScaling(warmup) does, or a scheduler."
        ]
    return []


def _decayed_vectors(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    decayed = [p for group in optimizer.param_groups if group.get("weight_decay") for p in group["params"]]
    return [names[id(p)] for p in decayed if p.dim() <= 1 and id(p) in names]


def _last_norms(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """The last batch norm of each module that may be a residual block: by its name, or that of a child; a shortcut's own norm is none."""
    for path, block in model.named_modules():
        children = dict(block.named_children())
        named = any(word in type(block).__name__ for word in ("Block", "Bottleneck", "Residual"))
        if not named and not children.keys() & _SHORTCUTS:
            continue
        norms = [name for name, child in children.items() if "BatchNorm" in type(child).__name__]
        if len(norms) > 1:
            yield f"{path}.{norms[-1]}" if path else norms[-1], children[norms[-1]]


_SHORTCUTS = frozenset({"downsample", "shortcut", "skip"})


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
