"""The learning rates with which the user's optimizer takes a step that others share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import sqrt

import torch
from torch import Tensor

from polyrhythm.core.kernel.crew import BatchRule
from polyrhythm.core.protocols.merge import LATE, keeps_rates, scale_of_all
from polyrhythm.core.protocols.topology import Agreement
from polyrhythm.errors import CompositionError

UNSCALED = (torch.optim.Rprop, torch.optim.Adafactor)
"""Optimizers whose steps are not proportional to the learning rate: Rprop begins with it, Adafactor takes it for an upper bound."""


@contextmanager
def at(optimizer: torch.optim.Optimizer, rates: tuple[float, ...]) -> Iterator[None]:
    """Set the learning rates of the groups of `optimizer` for a while; a changed rate is restored afterwards, number or tensor."""
    changed = []
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        own = group["lr"]
        if float(own) != rate:
            changed.append((group, own))
            group["lr"] = torch.full_like(own, rate) if isinstance(own, Tensor) else rate
    try:
        yield
    finally:
        for group, own in changed:
            group["lr"] = own


def rate_factor(rule: BatchRule, agreement: Agreement, before: int, after: int) -> float:
    """The factor of the optimizer's learning rates where `before` workers become `after`: √(after / before) if each keeps its batch.

    It is the rule of `SquareRootScaling` (Gupta, Zhang, Wang, ICDM 2016). The factor is 1 where the batch of all stays equal, for a merge
    that follows the number of workers by itself, for one that does not average, and where workers send no gradients: their rate is that
    of their own steps.
    """
    scales = [scale_of_all(agreement.merge, LATE, workers) for workers in (before, after)]
    if rule is BatchRule.GLOBAL or not agreement.payload.is_gradient or None in scales or scales[0] != scales[1]:
        return 1.0
    return sqrt(after / before)


def refuse_unscaled(optimizer: torch.optim.Optimizer, agreement: Agreement, workers: int) -> None:
    """Raise CompositionError where learning rates will be multiplied, and `optimizer` would ignore that."""
    rule = agreement.consistency
    together = agreement.conditions.quorum(workers) == workers and not rule.traits.order_matters and keeps_rates(agreement.merge, workers)
    if isinstance(optimizer, UNSCALED) and agreement.payload.is_gradient and agreement.rule is None and workers > 1 and not together:
        raise CompositionError(
            f"{type(optimizer).__name__}'s steps are not proportional to its learning rate, and {agreement.merge!r} with "
            f"{agreement.consistency!r} scales that rate to weight gradients: use another optimizer, or BulkSynchronous with Mean."
        )
