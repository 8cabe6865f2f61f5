"""What a selection is: for which of a model's parameters an exchange is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import nn


@dataclass(frozen=True, slots=True)
class Candidate:
    """A parameter that an exchange may take: its full `name`, the `module` that owns it and the module's own name for it (`local`).

    `workers` is how many workers the run has.
    """

    name: str
    parameter: nn.Parameter
    module: nn.Module
    local: str
    workers: int


class Selection(Protocol):
    """Frozen settings."""

    def takes(self, candidate: Candidate) -> bool:
        """Whether the parameter belongs to it."""
