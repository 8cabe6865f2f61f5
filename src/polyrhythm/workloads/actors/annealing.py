"""The fall of a learner's rate, without which a policy that was found does not stay."""

from __future__ import annotations

import torch

from polyrhythm.errors import WorkloadError


def anneal(optimizer: torch.optim.Optimizer, rate: float, lost: float) -> None:
    """Set the learning rate to `rate`, less the share `lost` of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * (1 - lost)


def require_share(workload: str, **shares: float) -> None:
    """Refuse what is not from 0 to 1, with a WorkloadError."""
    for name, given in shares.items():
        if not 0 <= given <= 1:
            raise WorkloadError(f"{workload} was given {name}={given}, which is a share: give 0 to 1.")
