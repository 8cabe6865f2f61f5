"""The bytes of all tensors that are alive while operations of torch run, with or without memory."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class HeldBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensors that are made in it, until they are gone: `gradients`, and all `others`.

    `most_others` and `most` are the most of others, and of both, that were alive at once since `begin`. What is `kept` counts as neither.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.gradients = self.others = self.most_gradients = self.most_others = self.most = 0
        self._alive: dict[int, tuple[weakref.ref[torch.UntypedStorage], int]] = {}
        self._marked: set[int] = set()
        self._kept: dict[int, torch.UntypedStorage] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in tree_leaves(found):
            if isinstance(each, Tensor):
                self.see(each)
        return found

    def see(self, tensor: Tensor) -> None:
        """Count a tensor that was made elsewhere."""
        storage = tensor.untyped_storage()
        key = hash(storage)
        if key in self._alive or key in self._kept or not storage.nbytes():
            return
        self._alive[key] = weakref.ref(storage, partial(self._gone, key)), storage.nbytes()
        self.others += storage.nbytes()
        self._note()

    def keep(self, tensors: Iterable[Tensor]) -> int:
        """Take these, and what shares their memory, as kept; returns the bytes of those that were not before."""
        found = 0
        for each in tensors:
            storage = each.untyped_storage()
            if hash(storage) not in self._kept:
                self._gone(hash(storage), None)
                self._kept[hash(storage)] = storage
                found += storage.nbytes()
        return found

    def follow(self, parameter: Tensor) -> None:
        """Count the gradient of a parameter as one, from when autograd makes it."""
        parameter.register_post_accumulate_grad_hook(lambda each: self.mark(each.grad))  # type: ignore[no-untyped-call]

    def mark(self, gradient: Tensor | None) -> None:
        """Count a tensor as a gradient."""
        if gradient is None:
            return
        self.see(gradient)
        key = hash(gradient.untyped_storage())
        if key in self._alive and key not in self._marked:
            self._marked.add(key)
            self.others -= self._alive[key][1]
            self.gradients += self._alive[key][1]
            self._note()

    def begin(self) -> None:
        """Forget the most so far."""
        self.most_gradients = self.most_others = self.most = 0
        self._note()

    def _note(self) -> None:
        self.most_gradients = max(self.most_gradients, self.gradients)
        self.most_others = max(self.most_others, self.others)
        self.most = max(self.most, self.others + self.gradients)

    def _gone(self, key: int, _: object) -> None:
        if key in self._alive:
            _, nbytes = self._alive.pop(key)
            if key in self._marked:
                self._marked.remove(key)
                self.gradients -= nbytes
            else:
                self.others -= nbytes
