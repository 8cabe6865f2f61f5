"""Selection of parameters by their names."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.core.settings import checked, shown
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True, init=False)
@checked
class Named:
    """Parameters whose full name matches one of `patterns`, as file names match in a shell: `Named("embedding.*", "head.bias")`."""

    may_be_empty: ClassVar = False

    patterns: tuple[str, ...]

    def __init__(self, *patterns: str) -> None:
        if not patterns:
            raise CompositionError('Named() takes no parameter: give at least one name or pattern, such as "embedding.*".')
        if not all(isinstance(pattern, str) for pattern in patterns):
            raise CompositionError(f"Named({', '.join(map(shown, patterns))}) has what is no text: give names of parameters, or patterns.")
        object.__setattr__(self, "patterns", patterns)

    def __repr__(self) -> str:
        return f"Named({', '.join(map(repr, self.patterns))})"

    def takes(self, candidate: ParameterInfo) -> bool:
        """True if one of the patterns matches its name."""
        return any(fnmatchcase(candidate.name, pattern) for pattern in self.patterns)


EXAMPLES = (Named("*.weight"),)
