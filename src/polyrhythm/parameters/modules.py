"""Selection of parameters by the class of the module that owns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.core.settings import checked, shown
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True, init=False)
@checked
class Modules:
    """Parameters owned by a module of one of these classes, by class name, subclasses included: `Modules("Embedding", "EmbeddingBag")`."""

    may_be_empty: ClassVar = False

    kinds: tuple[str, ...]

    def __init__(self, *kinds: str) -> None:
        if not kinds:
            raise CompositionError('Modules() takes no parameter: give at least one class name, such as "Linear".')
        if not all(isinstance(kind, str) for kind in kinds):
            raise CompositionError(f"Modules({', '.join(map(shown, kinds))}) has what is no text: give names of classes.")
        object.__setattr__(self, "kinds", kinds)

    def __repr__(self) -> str:
        return f"Modules({', '.join(map(repr, self.kinds))})"

    def takes(self, candidate: ParameterInfo) -> bool:
        """True if its module is of one of these classes."""
        return any(kind.__name__ in self.kinds for kind in type(candidate.module).__mro__)


EXAMPLES = (Modules("Linear"),)
