"""The learning rates with which the user's optimizer takes a step that others share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from polyrhythm.core.protocols.merge import keeps_rates
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


def refuse_unscaled(optimizer: torch.optim.Optimizer, agreement: Agreement, workers: int) -> None:
    """Raise CompositionError where learning rates will be multiplied, and `optimizer` would ignore that."""
    rule = agreement.consistency
    together = agreement.conditions.quorum(workers) == workers and not rule.traits.order_matters and keeps_rates(agreement.merge, workers)
    if isinstance(optimizer, UNSCALED) and agreement.payload.is_gradient and agreement.rule is None and workers > 1 and not together:
        raise CompositionError(
            f"{type(optimizer).__name__}'s steps are not proportional to its learning rate, and {agreement.merge!r} with "
            f"{agreement.consistency!r} scales that rate to weight gradients: use another optimizer, or BulkSynchronous with Mean."
        )
