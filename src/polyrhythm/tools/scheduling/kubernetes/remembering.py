"""What was found of objects of the API, for as long as they are the same: an object that has changed is another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Found = TypeVar("Found")
_MOST = 65536


@dataclass(slots=True)
class Remembering(Generic[Found]):
    """What `find` gives, by keys. Of each it is asked again when one of its inputs is another object than at the last time.

    Of a thousand pods a few have changed between two decisions; to read all of them anew takes longer than the decision.
    """

    find: Callable[..., Found]
    _known: dict[str, tuple[tuple[object, ...], Found]] = field(default_factory=dict)

    def of(self, key: str, *inputs: object) -> Found:
        """What it gives for these inputs."""
        known = self._known.get(key)
        if known is not None and len(known[0]) == len(inputs):
            for before, now in zip(known[0], inputs, strict=True):
                if before is not now:
                    break
            else:
                return known[1]
        if len(self._known) >= _MOST:
            self._known.clear()
        found = self.find(*inputs)
        self._known[key] = (inputs, found)
        return found
