"""What has state that a checkpoint must hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from polyrhythm.core.trees import StateTree


class Stateful(Protocol):
    """Law: what `restore` was given an `export` of goes on as the exporter did, bit for bit."""

    def export(self) -> StateTree:
        """All that is needed to continue, by name. Tensors may be those in use: a caller that keeps the tree copies them."""

    def restore(self, state: StateTree) -> None:
        """Take over what was exported; only called on one that was set up in the same way."""


class ServerCheckpoints(Protocol):
    """Where a server's state is written, and where it comes from in a run that is resumed."""

    def resume(self, restore: Callable[[StateTree], None]) -> None:
        """Have `restore` take over what the server had exported in the run that is resumed; do nothing where none is."""

    def of(self, server: str) -> ServerCheckpoints:
        """Those of another server, whose part this one has taken over."""

    def write(self, step: int, state: StateTree) -> str:
        """Write the server's part of the checkpoint after `step`. Returns why that could not be, as a sentence; else nothing."""
