"""Selection of parameters by the place of their module in the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Fragment:
    """Every `count`-th of the modules that own parameters, beginning with the module `index`.

    (The strided pattern of Douillard et al., 2025, section 2.2, with modules in place of transformer blocks.) A model may have too
    few modules for some fragments.
    """

    may_be_empty: ClassVar = True

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise CompositionError(f"Fragment({self.index}, {self.count}) is none of them: they are numbered from 0.")

    def takes(self, candidate: ParameterInfo) -> bool:
        """True if its module belongs to the fragment."""
        return candidate.place % self.count == self.index


EXAMPLES = (Fragment(1, 2),)
