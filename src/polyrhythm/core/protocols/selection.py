"""What a selection is: for which of a model's parameters an exchange is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import nn


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """A parameter that an exchange may take: its full `name`, the `module` that owns it and the module's own name for it (`local`).

    `workers` is how many workers the run has, `place` the number of the module among those that own trained parameters, from 0.
    """

    name: str
    parameter: nn.Parameter
    module: nn.Module
    local: str
    workers: int
    place: int = 0


class Selection(Protocol):
    """Frozen settings."""

    @property
    def may_be_empty(self) -> bool:
        """Whether a model may have no parameter that it takes; else that is refused, as a name that is misspelt."""

    def takes(self, candidate: ParameterInfo) -> bool:
        """Whether the parameter belongs to it."""
