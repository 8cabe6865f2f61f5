"""Sums over all workers through NCCL, where each has a CUDA device.

What is exchanged lies on the CPU; it is copied to the device, summed there, and copied back. This has not been run on a GPU: it was
written on machines without one. Without CUDA it answers None, and the strategy reduces by messages. NCCL chooses its own order of
summing, so that on GPUs the last bits may differ from the simulator's.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from polyrhythm.kernel.effects import Reduce, ReduceInPlace
from polyrhythm.processes.charges import Charge, Charges

_WAIT = timedelta(seconds=60)


class Nccl:
    """This worker's part in an NCCL group of all `workers`, joined at the first sum through the TCP store at `meeting`.

    `charge` counts what the messages of the schedule would have been.
    """

    def __init__(self, rank: int, workers: int, meeting: str, device: str, charge: Charge) -> None:
        self._rank = rank
        self._device = torch.device(device)
        self._workers = workers
        self._meeting = meeting
        self._charges = Charges(charge)
        self._group: dist.ProcessGroupNCCL | None = None
        self._moved = 0

    def reduce(self, effect: Reduce) -> Tensor | None:
        """The sum over the workers; None if that is left to messages."""
        value, workers = effect.value, effect.group.size
        # a group of fewer than all would need everyone to open it, those left out too
        if self._device.type != "cuda" or workers != self._workers or not self._meeting or not dist.is_nccl_available():
            return None
        self._charges.count(effect, value.shape, value.dtype)
        self._moved += 1
        if self._group is None:
            self._group = self._join(self._device)
        total = value.to(self._device, copy=True)
        self._group.allreduce([total]).wait()  # type: ignore[attr-defined]
        total = total.to(value.device)
        self._moved += 1
        return total

    def reduce_in_place(self, effect: ReduceInPlace) -> bool | None:
        """Not done yet: the vector goes the way of `reduce`."""
        return None

    def part(self, rank: int, how: str) -> None:
        """A rank is gone: NCCL finds out for itself."""

    def give_up(self) -> None:
        """NCCL's own time limit ends the wait."""

    @property
    def moved(self) -> int:
        """Sums begun and ended: within one, NCCL tells nothing."""
        return self._moved

    def _join(self, device: torch.device) -> dist.ProcessGroupNCCL:
        torch.cuda.set_device(device)  # the loop's thread has a current device of its own
        host, port = self._meeting.rsplit(":", 1)
        store = dist.TCPStore(host, int(port), self._workers, self._rank == 0, _WAIT, wait_for_workers=False)  # type: ignore[attr-defined]
        return dist.ProcessGroupNCCL(store, self._rank, self._workers, dist.ProcessGroupNCCL.Options())
