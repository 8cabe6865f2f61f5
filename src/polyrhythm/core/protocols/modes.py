"""The mode of each module, training or evaluation: `model.train(flag)` would forget layers that were frozen one by one."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

Modes = list[tuple[nn.Module, bool]]


def modes(models: Iterable[nn.Module]) -> Modes:
    """Every module of `models`, with its mode."""
    return [(module, module.training) for model in models for module in model.modules()]


def set_modes(modes: Modes) -> None:
    """Put each module into its mode."""
    for module, training in modes:
        module.training = training
