"""The memory of a rank, counted while it computes: which tensors lived at its peak, by role and by module.

Counted are the bytes of the storages that torch's operations make on the rank's thread, from their first tensor until the last is dropped;
what a program allocates otherwise is not. A law holds it to `torch.distributed._tools.MemTracker`.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from polyrhythm.core.kernel.events import MemoryPeak
from polyrhythm.core.torch_private.one_process import address_of_storage, backward_pass, has_shapes_only, wraps_tensors

PARAMETER, GRADIENT, STATE, BUFFER = "parameter", "gradient", "optimizer state", "buffer"
ACTIVATION, BACKWARD, OTHER = "activation", "made in backward", "other"


@dataclass(slots=True)
class _Storage:
    """A storage that lives, or did at the peak: its role as it is known now, the module in whose forward pass it was made, its bytes."""

    role: str
    module: str
    nbytes: int


class Memory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the memory of the thread that is in it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held = 0
        """Bytes of the storages that live now."""
        self.peak = 0
        self._at_peak: list[_Storage] = []
        self._rising = True
        """False if less is held than at the peak, whose storages are known."""
        self._living: dict[int, _Storage] = {}
        self._modules: list[str] = []
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if any(map(wraps_tensors, types)):
            return NotImplemented
        out = func(*args, **(kwargs or {}))
        if not any(map(has_shapes_only, types)):
            for each in out if isinstance(out, tuple | list) else (out,):
                if isinstance(each, Tensor):
                    self._see(each)
        return out

    def _see(self, tensor: Tensor) -> None:
        storage: Any = tensor.untyped_storage()
        key, nbytes = address_of_storage(tensor), storage.nbytes()
        known = self._living.get(key)
        if tensor.device.type == "meta" or (known is not None and known.nbytes == nbytes):
            return
        if known is None:
            weakref.finalize(storage, self._drop, key)
        else:
            self._drop(key)  # it was resized, as FSDP2 does
        self._living[key] = _Storage(self._role(), self._modules[-1] if self._modules else "", nbytes)
        self.held += nbytes
        if self.held > self.peak:
            self.peak, self._rising = self.held, True

    def _role(self) -> str:
        if backward_pass() >= 0:
            return BACKWARD
        return ACTIVATION if self._modules else OTHER

    def _drop(self, key: int) -> None:
        if self._rising:
            self._at_peak, self._rising = list(self._living.values()), False
        self.held -= self._living.pop(key).nbytes

    def enter(self, module: nn.Module) -> None:
        """The forward pass of `module` begins."""
        if not self._modules:
            for name, each in module.named_modules():
                self._names[each] = name or type(module).__name__
            self.settle(BUFFER, ((name.rpartition(".")[0], each) for name, each in module.named_buffers()))
            self.settle(PARAMETER, ((name.rpartition(".")[0], each) for name, each in module.named_parameters()))
        self._modules.append(self._names.get(module, type(module).__name__))

    def leave(self) -> None:
        """The forward pass of the module that was entered last ends."""
        if self._modules:
            self._modules.pop()

    def stepped(self, optimizer: Optimizer) -> None:
        """The optimizer has taken a step: what it has is known by its role."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.settle(PARAMETER, [("", parameter)])
                self.settle(GRADIENT, [("", parameter.grad)] if parameter.grad is not None else [])
                kept = optimizer.state.get(parameter, {})
                self.settle(STATE, (("", each) for each in kept.values() if isinstance(each, Tensor)))

    def settle(self, role: str, tensors: Iterable[tuple[str, Tensor]]) -> None:
        """These tensors, each of a module, have that role."""
        for module, tensor in tensors:
            whole: Any = tensor.detach()
            local = whole.to_local() if wraps_tensors(type(whole)) else whole
            if (known := self._living.get(address_of_storage(local))) is not None:
                known.role, known.module = role, module or known.module

    def event(self, time: float, actor: str) -> MemoryPeak:
        """The peak, as an event."""
        roles, modules = Counter[str](), Counter[str]()
        for each in list(self._living.values()) if self._rising else self._at_peak:
            roles[each.role] += each.nbytes
            modules[each.module or "outside of modules"] += each.nbytes
        return MemoryPeak(time, actor, self.peak, dict(roles.most_common()), dict(modules.most_common(_MODULES)))


_MODULES = 32


@contextmanager
def modules_followed(of_thread: Any) -> Iterator[None]:
    """Have the forward passes of all modules followed by the memory that `of_thread` gives, if there is one for the calling thread."""

    def enter(module: nn.Module, inputs: Any) -> None:
        if (memory := of_thread()) is not None:
            memory.enter(module)

    def leave(module: nn.Module, inputs: Any, output: Any) -> None:
        if (memory := of_thread()) is not None:
            memory.leave()

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
