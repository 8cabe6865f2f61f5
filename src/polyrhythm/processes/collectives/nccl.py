"""Sums over a group of workers through NCCL, where each has a CUDA device.

What is exchanged lies on the CPU; it is copied to the device, summed there, and copied back. None of this, sub-communicators included,
has been run on a GPU: it was written on machines without one. Without CUDA it returns None, and the strategy reduces by messages. NCCL
chooses its own order of summing, so that on GPUs the last bits may differ from the simulator's.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import timedelta
from threading import Lock

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from polyrhythm.kernel.effects import NativeReduce, NativeReduceInPlace
from polyrhythm.processes.collectives.traffic import CountTraffic, TrafficCounter

_WAIT = timedelta(seconds=60)


class NcclStore:
    """The TCP store at `address` ("host:port") through which all groups of a run form their communicators; worker 0 keeps it.

    Without an address there is none, and every sum is left to messages.
    """

    def __init__(self, address: str, rank: int, device: str) -> None:
        self.device = torch.device(device)
        self._address = address
        self._rank = rank
        self._lock = Lock()
        self._store: TCPStore | None = None
        if rank == 0 and self.usable:  # at once: a group that worker 0 is no member of finds it there too
            self._open()

    @property
    def usable(self) -> bool:
        """Whether there is a device, an address and an NCCL to use them with."""
        return self.device.type == "cuda" and bool(self._address) and dist.is_nccl_available()

    def join(self, name: str, rank: int, size: int) -> dist.ProcessGroupNCCL:
        """A communicator of the group `name`, as its member `rank` of `size`; blocks until the others have come."""
        torch.cuda.set_device(self.device)  # each thread has a current device of its own
        store = PrefixStore(f"group/{name}", self._open())
        return dist.ProcessGroupNCCL(store, rank, size, dist.ProcessGroupNCCL.Options())

    def _open(self) -> TCPStore:
        with self._lock:  # several groups may begin at once, each in a thread of its own
            if self._store is None:
                host, port = self._address.rsplit(":", 1)
                self._store = open_store(host, int(port), self._rank == 0)
            return self._store


def open_store(host: str, port: int, keeper: bool) -> TCPStore:
    """A store of torch at that address; who keeps it waits there only, not on every interface as torch would."""
    if not keeper:
        return TCPStore(host, port, None, False, _WAIT, wait_for_workers=False)
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    return TCPStore(host, port, None, True, _WAIT, wait_for_workers=False, master_listen_fd=listener.detach())


class Nccl:
    """One of `members`' part in the communicator of the group `name`, which is formed at the first sum through `store`.

    `add` counts what the messages of the schedule would have been.
    """

    def __init__(self, store: NcclStore, name: str, members: Sequence[str], add: CountTraffic) -> None:
        self._store = store
        self._name = name
        self._members = tuple(members)
        self._traffic = TrafficCounter(add)
        self._group: dist.ProcessGroupNCCL | None = None
        self._moved = 0

    def reduce(self, effect: NativeReduce) -> Tensor | None:
        """The sum over the members; None if that is left to messages."""
        value, group = effect.value, effect.group
        if not self._store.usable or group.members != self._members:
            return None
        self._traffic.count(effect, value.shape, value.dtype)
        self._moved += 1
        if self._group is None:
            self._group = self._store.join(self._name, group.rank, group.size)
        total = value.to(self._store.device, copy=True)
        self._group.allreduce([total]).wait()  # type: ignore[attr-defined]
        total = total.to(value.device)
        self._moved += 1
        return total

    def reduce_in_place(self, effect: NativeReduceInPlace) -> bool | None:
        """Not done yet: the vector goes the way of `reduce`."""
        return None

    def peer_gone(self, name: str, how: str) -> None:
        """An actor is gone: NCCL finds out for itself."""

    def give_up(self) -> None:
        """NCCL's own time limit ends the wait."""

    @property
    def moved(self) -> int:
        """Sums begun and ended: within one, NCCL reports nothing."""
        return self._moved
