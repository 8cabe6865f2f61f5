"""Protocol of selections: the parameters of a model that an exchange takes.

Members are in `parameters`. `strategy.division` asks them when a model is attached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import nn


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """A parameter that an exchange may take: its full `name`, the `module` that owns it and the module's own name for it (`local`).

    `workers` is the number of workers of the run, `place` the number of the module among those that own trained parameters, from 0.
    """

    name: str
    parameter: nn.Parameter
    module: nn.Module
    local: str
    workers: int
    place: int = 0


class Selection(Protocol):
    """A choice of parameters. Settings are frozen."""

    @property
    def may_be_empty(self) -> bool:
        """True if a model may have no parameter that it takes; else that is refused, as a misspelt name."""

    def takes(self, candidate: ParameterInfo) -> bool:
        """True if the selection takes the parameter."""
