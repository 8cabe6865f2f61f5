"""Protocol of a policy for buffers: the batch-norm statistics, and other buffers, with which the final weights are saved.

A strategy has one policy; it makes a `Keeper` for each model that a worker attaches.
"""

from __future__ import annotations

from typing import Protocol

from torch import nn


class Keeper(Protocol):
    """One model's buffers at one worker."""

    def renew(self) -> None:
        """Bring the buffers up to the final weights, which the model holds now."""


class Unchanged:
    """Leaves the buffers as training left them."""

    def renew(self) -> None:
        """Leave the buffers as they are."""


class Buffers(Protocol):
    """Frozen settings."""

    @property
    def averaged(self) -> bool:
        """True if every worker ends with the mean of all workers' buffers after `renew`."""

    def keeper(self, model: nn.Module) -> Keeper:
        """A keeper of the buffers of a model that was just attached."""
