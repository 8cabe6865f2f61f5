"""The wait of a program until all workers have sent the facts that must be equal."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.processes.runtime.completion import Completion


class PendingAgreement:
    """One round at a time; in the loop's thread. `on_request` is given the facts of the program."""

    def __init__(self) -> None:
        self.on_request: Callable[[Facts, str], None] = _ignore
        self._completion: Completion | None = None

    def request(self, completion: Completion, facts: Facts, remedy: str) -> None:
        """The program has given its `facts`, and waits with `completion`."""
        self._completion = completion
        self.on_request(facts, remedy)

    def drop(self) -> None:
        """The wait was interrupted: what comes now is of another view."""
        self._completion = None

    def settle(self, difference: str) -> None:
        """The facts of all have come; the program is given `difference`, the sentence on where they differ, or empty."""
        completion, self._completion = self._completion, None
        if completion is not None:
            completion.finish(difference, None)


def _ignore(facts: Facts, remedy: str) -> None:
    return None
