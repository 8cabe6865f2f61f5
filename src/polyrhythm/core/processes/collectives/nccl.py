"""Sums over a group of workers through NCCL, where each has a CUDA device.

What is exchanged lies on the CPU; it is copied to the device, summed there, and copied back. None of this, sub-communicators included,
has been run on a GPU: it was written on machines without one. Without CUDA it returns None, and the strategy reduces by messages. NCCL
chooses its own order of summing, so that on GPUs the last bits may differ from the simulator's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from polyrhythm.core.kernel.effects import NativeCollective, NativeReduce, NativeReduceInPlace, Rounding
from polyrhythm.core.processes.collectives.traffic import CountTraffic, TrafficCounter


class Communicators:
    """Forms the communicators of all groups of a run through the store that `open_store` gives, as a process with `device`."""

    def __init__(self, open_store: Callable[[], Store], device: str) -> None:
        self.device = torch.device(device)
        self._open_store = open_store
        self._lock = Lock()
        self._store: Store | None = None  # kept: C++ code that calls a store of Python's does not keep it

    @property
    def usable(self) -> bool:
        """True if there is a device, and an NCCL to use it with."""
        return self.device.type == "cuda" and dist.is_nccl_available()

    def join(self, name: str, rank: int, size: int) -> dist.ProcessGroupNCCL:
        """A communicator of the group `name`, as its member `rank` of `size`; blocks until the others have come."""
        torch.cuda.set_device(self.device)  # each thread has its own current device
        with self._lock:  # several groups may begin at once, each in a separate thread
            if self._store is None:
                self._store = self._open_store()
        return dist.ProcessGroupNCCL(PrefixStore(f"group/{name}", self._store), rank, size, dist.ProcessGroupNCCL.Options())


class Nccl:
    """One of `members`' part in the communicator of the group `name`, which is formed at the first sum by `communicators`.

    `add` counts what the messages of the schedule would have been.
    """

    def __init__(self, communicators: Communicators, name: str, members: Sequence[str], add: CountTraffic) -> None:
        self._communicators = communicators
        self._name = name
        self._members = tuple(members)
        self._traffic = TrafficCounter(add)
        self._group: dist.ProcessGroupNCCL | None = None
        self._moved = 0

    def reduce(self, effect: NativeReduce) -> Tensor | None:
        """The sum over the members; None if that is left to messages."""
        value, group = effect.value, effect.group
        if not self._communicators.usable or group.members != self._members or effect.schedule.rounding is not Rounding.NONE:
            return None
        self._traffic.count(effect, value.shape, value.dtype)
        self._moved += 1
        if self._group is None:
            self._group = self._communicators.join(self._name, group.rank, group.size)
        total = value.to(self._communicators.device, copy=True)
        self._group.allreduce([total]).wait()  # type: ignore[attr-defined]
        total = total.to(value.device)
        self._moved += 1
        return total

    def reduce_in_place(self, effect: NativeReduceInPlace) -> bool | None:
        """Always None: the caller then uses `reduce`."""
        return None

    def collective(self, effect: NativeCollective) -> bool | None:
        """Always None: these are sums of exchanges."""
        return None

    def peer_gone(self, name: str, how: str) -> None:
        """An actor is gone: NCCL finds out for itself."""

    def give_up(self) -> None:
        """NCCL's own time limit ends the wait."""

    @property
    def moved(self) -> int:
        """Sums started and ended: within one, NCCL reports nothing."""
        return self._moved
