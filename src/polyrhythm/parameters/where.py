"""Selection of parameters by a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True, repr=False)
@checked
class Where:
    """Parameters for which `condition(candidate)` is true; it must be the same at every worker."""

    may_be_empty: ClassVar = False

    condition: Callable[[ParameterInfo], bool]

    def __repr__(self) -> str:
        return f"Where({getattr(self.condition, '__qualname__', repr(self.condition))})"

    def takes(self, candidate: ParameterInfo) -> bool:
        """True if the condition is true for it."""
        return bool(self.condition(candidate))


EXAMPLES = (Where(lambda candidate: candidate.parameter.numel() > 8),)
