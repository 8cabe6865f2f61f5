"""Selection of parameters by their shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Dimensions:
    """Parameters of `least` dimensions or more, and of `elements` elements or more: matrices and convolutions, not biases."""

    may_be_empty: ClassVar = False

    least: int
    elements: int = 0

    def __post_init__(self) -> None:
        if self.least < 0 or self.elements < 0:
            raise CompositionError(f"{self} describes no shape: dimensions and elements are counted, so give 0 or more.")

    def takes(self, candidate: ParameterInfo) -> bool:
        """True if it has enough dimensions and elements."""
        return candidate.parameter.dim() >= self.least and candidate.parameter.numel() >= self.elements


EXAMPLES = (Dimensions(2),)
