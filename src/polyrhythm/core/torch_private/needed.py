"""A private name of torch that is looked up at import, so that a torch without it is refused at once."""

from __future__ import annotations

from typing import Any

import torch


def needed(module: Any, name: str) -> Any:
    """The attribute `name` of a module of torch. Raises ImportError where it has none."""
    if not hasattr(module, name):
        raise ImportError(f"torch {torch.__version__} has no {module.__name__}.{name}, which polyrhythm needs: install torch 2.13.0.")
    return getattr(module, name)
