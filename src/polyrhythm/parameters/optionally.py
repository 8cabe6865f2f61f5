"""What a model may have, or have not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo, Selection
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class Optionally:
    """The parameters that `selection` takes, if the model has any: `Optionally(Modules("Embedding"))`.

    For strategies that are made before the model is known. An exchange for which nothing is left sends nothing.
    """

    may_be_empty: ClassVar = True

    selection: Selection

    def takes(self, candidate: ParameterInfo) -> bool:
        """As the selection."""
        return self.selection.takes(candidate)
