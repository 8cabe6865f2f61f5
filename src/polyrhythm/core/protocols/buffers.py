"""What a policy for buffers is: with which batch-norm statistics, and other buffers, the final weights are saved."""

from __future__ import annotations

from typing import Protocol

from torch import nn


class Keeper(Protocol):
    """One model's buffers at one worker."""

    def renew(self) -> None:
        """Bring them up to the final weights, which the model holds now."""


class Unchanged:
    """Leaves them as training left them."""

    def renew(self) -> None:
        """Nothing."""


class Buffers(Protocol):
    """Frozen settings."""

    @property
    def averaged(self) -> bool:
        """Whether every worker ends with the mean of what all workers have after `renew`."""

    def keeper(self, model: nn.Module) -> Keeper:
        """Begin to look after the buffers of a model that was just attached."""
