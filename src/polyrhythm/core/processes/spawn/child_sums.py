"""The ways of a child to sums without messages: memory that processes share, or NCCL. A `Child` asks for them in each view."""

from __future__ import annotations

from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.kernel.view import NextView
from polyrhythm.core.processes.collectives.nccl import Communicators, Nccl
from polyrhythm.core.processes.collectives.piecewise import PiecewiseCollectives
from polyrhythm.core.processes.collectives.reducer import GroupReducer
from polyrhythm.core.processes.collectives.shared_memory import SharedMemoryReducer
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.spawn.job_spec import JobSpec, SharingGroup
from polyrhythm.core.processes.store.attempt import StoreTarget
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.core.processes.store.torch_store import TorchStore
from polyrhythm.core.shared_memory import MemoryGroup, PieceGroup, SharedSegment

_STORE_SECONDS = 60.0


class ChildSums:
    """The sums of the actor `name` on `node`, in the groups of `spec` and of later views."""

    def __init__(self, node: Node, name: str, spec: JobSpec) -> None:
        self._node = node
        self._name = name
        self._spec = spec

    def begin(self) -> dict[str, GroupReducer]:
        """The ways to a sum of the groups that this actor is a member of when the run begins, by their names."""
        mine = [group for group in self._spec.groups if self._name in group.members]
        if mine and self._node.device != "cpu" and not self._spec.changes:  # a sum through NCCL cannot be interrupted
            communicators, add = Communicators(self._open_store, self._node.device), self._node.peers.count
            return {group.name: Nccl(communicators, group.name, group.members, add) for group in mine}
        found: dict[str, GroupReducer] = {group.name: self._open(group) for group in mine if group.memory}
        return found | self._gathering()

    def enter(self, view: NextView) -> dict[str, GroupReducer]:
        """The way to a sum of all workers of the next view, if this one is among them."""
        group = SharingGroup("", view.change.after.members, view.memory)
        return {"": self._open(group)} if group.memory and self._name in group.members else {}

    def _gathering(self) -> dict[str, GroupReducer]:
        """Collectives are of tensors on the CPU, and of a crew that does not change."""
        here = self._node.device == "cpu" and not self._spec.changes
        mine = [group for group in self._spec.gathering if here and self._name in group.members and group.memory]
        segments = {group: SharedSegment.open(group.memory, len(group.members)) for group in mine}
        count = self._node.peers.count
        return {
            group.name: PiecewiseCollectives(PieceGroup(segment, group.members.index(self._name)), group.members, count)
            for group, segment in segments.items()
        }

    def _open(self, group: SharingGroup) -> SharedMemoryReducer:
        segment = SharedSegment.open(group.memory, len(group.members))
        memory = MemoryGroup(segment, group.members.index(self._name))
        return SharedMemoryReducer(memory, group.members, self._node.peers.count, self._spec.changes)

    def _open_store(self) -> Store:
        target = StoreTarget("127.0.0.1", self._spec.store_port, self._spec.secret)
        return TorchStore(StoreClient(self._name, lambda: target, _STORE_SECONDS, "the launcher's store"), "torch/")
