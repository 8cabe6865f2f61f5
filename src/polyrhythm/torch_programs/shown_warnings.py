"""Warnings of ranks that share a process: each is shown as often as in a process of its own.

Python notes in a module which of its warnings were shown, and begins anew when filters change, as they do between ranks. `program_run`
enters this for the time of a run.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polyrhythm.torch_programs.ranks import current

_EACH_TIME = "always"


@contextmanager
def warnings_of_ranks() -> Iterator[None]:
    """Show a warning of a rank once for each place, unless a filter says always."""
    shown, theirs = set[tuple[object, ...]](), warnings.showwarning

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any, **named: Any) -> None:
        if (rank := current()) is not None and _action(str(message), category, lineno) != _EACH_TIME:
            place = (rank.rank, str(message), category, filename, lineno)
            if place in shown:
                return
            shown.add(place)
        theirs(message, category, filename, lineno, *rest, **named)

    warnings.showwarning = show
    try:
        yield
    finally:
        if warnings.showwarning is show:
            warnings.showwarning = theirs


def _action(text: str, category: type[Warning], lineno: int) -> str:
    """What the filters say of a warning that is shown, but for those of single modules, whose names are not known here."""
    for action, message, kind, module, line in warnings.filters:
        if module is None and issubclass(category, kind) and line in (0, lineno) and (message is None or message.match(text)):
            return action
    return "default"
