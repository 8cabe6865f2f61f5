"""The part of torch's `Work` that is the same for all collectives, sends and receives of our process groups."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist


class GroupWork(dist.Work):
    """Something that was issued, with its `outputs`; a class of it says in `wait` and `is_completed` when it is done."""

    error: BaseException | None = None
    """With which it has failed."""

    def __init__(self, outputs: Any) -> None:
        dist.Work.__init__(self)
        self.outputs = outputs

    def is_success(self) -> bool:
        """True if it is done without an error."""
        return self.is_completed() and self.error is None

    def exception(self) -> BaseException | None:
        """The error, if there was one."""
        return self.error

    def result(self) -> Any:
        """The outputs; waits for them."""
        self.wait()
        return self.outputs

    def synchronize(self) -> None:
        """Wait until it is done: there are no streams on a CPU."""
        self.wait()


class PeerWork(GroupWork):
    """A send or receive; `source` is the sender's rank in the group, once it is known."""

    source = -1

    def _source_rank(self) -> int:
        """The sender's rank, which torch asks for after a receive from anyone."""
        return self.source

    source_rank = _source_rank
