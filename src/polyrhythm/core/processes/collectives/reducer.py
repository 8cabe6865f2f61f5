"""Ways to a sum over a group that are faster than messages.

A child process (`spawn.child`) or a joined worker (`rendezvous.negotiation`) makes them; `runtime.sums` calls them.
"""

from __future__ import annotations

from typing import Protocol

from polyrhythm.core.kernel.effects import NativeReducer


class GroupReducer(NativeReducer, Protocol):
    """One member's part in the sums of one group: called in a thread that may block, and given losses in the loop's.

    A sum is left to messages at every member or at none. Raises ConnectionAbortedError if it cannot come.
    """

    def peer_gone(self, name: str, how: str) -> None:
        """The actor `name`, a member or not, "has ended" or "was lost"."""

    def give_up(self) -> None:
        """Give up all waits for sums."""

    @property
    def moved(self) -> int:
        """A number that changes whenever a sum gets on, at any member."""
