"""Whether each module is in training, as the user has it: layers may be frozen one by one, which `model.train(flag)` would forget."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

Modes = list[tuple[nn.Module, bool]]


def modes(models: Iterable[nn.Module]) -> Modes:
    """Every module of `models`, and its mode."""
    return [(module, module.training) for model in models for module in model.modules()]


def set_modes(modes: Modes) -> None:
    """Put each module into its mode."""
    for module, training in modes:
        module.training = training
