"""An exchange that is to be made: a `Part` makes one at a step, and `StepExchanges` carries it out with those of the other parts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.protocols.responses import Response


@dataclass(frozen=True, slots=True)
class PendingExchange:
    """An exchange that is to be made: `start` makes its coroutine, and `conclude` applies the response, where the program runs.

    The exchanges of all parts of a replica at a step are under way at the same time.
    """

    start: Callable[[], Coroutine[Effect[Any], Any, Response]]
    conclude: Callable[[Response], None]
    again: Callable[[Any], PendingExchange | None]
    """The same exchange by another part of the same parameters, in the next view."""
