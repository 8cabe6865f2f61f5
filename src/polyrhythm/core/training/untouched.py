"""Calls a model without changing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from polyrhythm.core import rng
from polyrhythm.core.protocols.modes import modes, set_modes


@contextmanager
def untouched(models: Sequence[nn.Module]) -> Iterator[None]:
    """Within the block `models` are in evaluation mode, and no gradients are recorded.

    Afterwards every buffer, also one that is no floating-point number or was put in another's place, every module's own mode and the
    global random generators are as they were.
    """
    before = modes(models)
    modules = dict.fromkeys(module for module, _ in before)
    buffers = [(module, name, buffer, buffer.clone()) for module in modules for name, buffer in module.named_buffers(recurse=False)]
    for model in models:
        model.eval()
    try:
        with torch.no_grad(), rng.unmoved():
            yield
    finally:
        set_modes(before)
        with torch.no_grad():
            for module, name, buffer, value in buffers:
                buffer.copy_(value)
                setattr(module, name, buffer)
