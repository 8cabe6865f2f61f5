"""Refusal of numbers that are not finite, before they leave a worker. Parts ask for it at each exchange."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from polyrhythm.core.protocols.traits import Payload
from polyrhythm.errors import diverged


def refuse_infinite(parts: Sequence[Tensor], payload: Payload, actor: str, step: int) -> None:
    """Raise DivergedError if one of `parts`, the `payload` of `actor` at `step`, has a number that is not finite."""
    if parts and not math.isfinite((parts[0] if len(parts) == 1 else torch.stack([part.sum() for part in parts])).sum().item()):
        raise diverged(f"The {payload.value} of {actor} are not finite at step {step}")
