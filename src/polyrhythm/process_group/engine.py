"""The engine of a process group: what moves its tensors. `WithinHost` shares memory, `BetweenHosts` exchanges messages."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import torch.distributed as dist
from torch import Tensor

from polyrhythm.process_group.python_group import Collectives


class Engine(Protocol):
    """The part of one rank."""

    @property
    def collectives(self) -> Collectives[None]:
        """The collectives; each returns when the part of this rank is done."""

    def over(self, seconds: float, what: object) -> AbstractContextManager[None]:
        """A context in which collectives wait for others, `seconds` at most. Raises RunError with the reason if one gave up."""

    def send(self, tensor: Tensor, to: int, tag: int) -> dist.Work:
        """Begin to send to the member of rank `to`."""

    def receive(self, tensor: Tensor, source: int | None, tag: int) -> dist.Work:
        """Receive the next tensor with that tag from the member of rank `source`, or from any."""

    def abort(self) -> None:
        """End all waits with an error."""

    def close(self) -> None:
        """Give back what the group needed; nothing waits any more."""
