"""Optimizers that step by another, which they hold: SAM, Lookahead, and others.

Checks of optimizers that cannot be attached, in `strategy` and in `remote_optimizer`, end their messages with `advice`.
"""

from __future__ import annotations

import torch


def attribute_of(optimizer: torch.optim.Optimizer) -> str | None:
    """The attribute in which `optimizer` holds another; None where it holds none."""
    return next((key for key, held in vars(optimizer).items() if isinstance(held, torch.optim.Optimizer)), None)


def advice(optimizer: torch.optim.Optimizer) -> str:
    """Advice for an optimizer that holds another, to end the message that it cannot be attached; empty for other optimizers."""
    within = attribute_of(optimizer)
    if within is None:
        return ""
    kind, base = type(optimizer).__name__, type(getattr(optimizer, within)).__name__
    return (
        f" To keep {kind}, attach the {base} that it steps by, as worker.attach(model, optimizer.{within}), and step by {kind} as before."
    )
