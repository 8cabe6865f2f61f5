"""Refusal of optimizers that do not fit an exchange. `Replica` asks for each of its parts when a model is attached."""

from __future__ import annotations

from polyrhythm.core.strategy.deferral.deferred_steps import refuse_coupled
from polyrhythm.core.strategy.optimizers.attachable import refuse_modes
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.strategy.rates import refuse_unscaled


def refuse_optimizer(part: Part) -> None:
    """Raise CompositionError for an optimizer that would ignore the weight of a contribution, or an exchange at all."""
    optimizer = part.local.optimizer.optimizer
    refuse_modes(optimizer, part.agreement, part.local.provides)
    refuse_unscaled(optimizer, part.agreement, part.local.level.group.size)
    if part.channel.offers.tensors is not None:
        refuse_coupled(optimizer)
