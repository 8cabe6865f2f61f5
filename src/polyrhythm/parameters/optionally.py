"""Selection of parameters that a model may lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo, Selection
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class Optionally:
    """The parameters that `selection` takes, if the model has any: `Optionally(Modules("Embedding"))`.

    For strategies that are made before the model is known. An exchange without parameters sends nothing.
    """

    may_be_empty: ClassVar = True

    selection: Selection

    def takes(self, candidate: ParameterInfo) -> bool:
        return self.selection.takes(candidate)
