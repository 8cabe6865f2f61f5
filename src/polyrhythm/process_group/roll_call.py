"""`monitored_barrier` of real processes: everybody reports to rank 0, which names those who do not come in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from polyrhythm.errors import RunError

Send = Callable[[Tensor, int, int], dist.Work]
Receive = Callable[[Tensor, int | None, int], dist.Work]


class RollCalls:
    """Those of rank `rank` of `size`, one after another; scripts look for the words that gloo has in its errors."""

    def __init__(self, rank: int, size: int, send: Send, receive: Receive) -> None:
        self._rank, self._size = rank, size
        self._send, self._receive = send, receive
        self._count = 0

    def hold(self, seconds: float, all_ranks: bool) -> None:
        """Return at all members when all have come. Raises RunError where somebody has not; with `all_ranks` rank 0 names all of them."""
        self._count += 1
        come, answer = -2 * self._count, -2 * self._count - 1  # tags that no script has; who came too late to one is not in the next
        deadline = time.monotonic() + seconds
        if self._rank:
            try:
                self._send(torch.zeros(1, dtype=torch.uint8), 0, come).wait(_left(deadline))
                self._receive(torch.zeros(1, dtype=torch.uint8), 0, answer).wait(_left(deadline))
            except RunError as problem:
                raise RunError(
                    f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank "
                    f"0: {problem} Look at what rank 0 printed."
                ) from None
            return
        missing = []
        for rank in range(1, self._size):
            if deadline <= time.monotonic() and not all_ranks:
                raise RunError(f"Rank 0 timed out in monitoredBarrier after {1000 * seconds:g} ms: give it a longer timeout.")
            try:
                self._receive(torch.zeros(1, dtype=torch.uint8), rank, come).wait(_left(deadline))
            except RunError:
                missing.append(rank)
                if not all_ranks:
                    break
        if missing:
            ranks = f"Ranks {', '.join(map(str, missing))}" if all_ranks else f"Rank {missing[0]}"
            raise RunError(f"{ranks} failed to pass monitoredBarrier in {1000 * seconds:g} ms: look for what it does instead.")
        for rank in range(1, self._size):
            self._send(torch.zeros(1, dtype=torch.uint8), rank, answer)


def _left(deadline: float) -> timedelta:
    return timedelta(seconds=max(1e-3, deadline - time.monotonic()))
