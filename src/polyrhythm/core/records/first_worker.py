"""The first worker that is there, by the events of a run: progress lines, curves and loggers follow its steps and reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polyrhythm.core.kernel.events import AnyEvent, CrewChanged
from polyrhythm.core.kernel.names import FIRST


@dataclass(slots=True)
class PresentFirst:
    """The first worker of the present view, by `name`, `since` when; `size` is the number of workers, None before they have changed."""

    name: str = FIRST
    since: float = -math.inf
    size: int | None = None

    def sees(self, event: AnyEvent) -> bool:
        """True if `event` is one of the first worker. To be called with all events, in order: it takes note of changes."""
        if isinstance(event, CrewChanged):
            self.size = len(event.members)
            if event.actor != self.name:
                self.name, self.since = event.actor, event.time
        return event.actor == self.name and event.time >= self.since
