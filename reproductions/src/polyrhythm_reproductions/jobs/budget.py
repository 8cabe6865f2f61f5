"""A limit on the memory of tensors, which ends what would exceed it."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class MemoryBudget(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensors that are made while it runs and still exist; `most` there have been.

    Raises MemoryError where there are more than `nbytes`.
    """

    def __init__(self, nbytes: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nbytes, self.most = nbytes, 0
        self._made: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for value in tree_leaves(found):
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                self._made[StorageWeakRef(storage)] = storage.nbytes()  # type: ignore[no-untyped-call]
        held = self.held()
        self.most = max(self.most, held)
        if held > self.nbytes:
            raise MemoryError(f"{held} bytes of tensors are more than {self.nbytes}.")
        return found

    def held(self) -> int:
        """The bytes of those that exist now."""
        for storage in [each for each in self._made if each.expired()]:  # type: ignore[no-untyped-call]
            del self._made[storage]
        return sum(self._made.values())
