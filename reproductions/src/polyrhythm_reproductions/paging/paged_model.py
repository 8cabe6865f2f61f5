"""A model whose parameters and kept values share a small, fast memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.hooks import RemovableHandle

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.paging.pager import Pager
from polyrhythm_reproductions.paging.planner import MemoryPlan
from polyrhythm_reproductions.paging.trace import AccessTrace


class Lent(NamedTuple):
    """A parameter that computes on a copy in fast memory, and the memory that is its own."""

    parameter: nn.Parameter
    home: Tensor
    copy: Tensor


class KeptValue(NamedTuple):
    """A tensor that backward() will ask for: a block, and a view of it; or the tensor itself."""

    block: str
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    value: Tensor | None = None


class PagedModel:
    """`model` in at most `budget` bytes of `device`: its parameters, and what backward() needs (GeePS; Cui et al., EuroSys 2016).

    The first `iteration()` is the virtual one: computed as any other, with demand paging, and what it accesses is the trace. Those after it
    follow a plan made from that. One that accesses something else (another branch, another batch size) continues with demand paging, and
    makes the next plan. Results have the same bits whatever the budget is. Gradients are outside it, where the parameters' own memory is.

    Copies are made when they are due, and nothing is computed meanwhile: on an accelerator they would be on separate streams, which is not
    written. `paging.timing` gives the seconds of an iteration in which they overlap with computing.
    """

    def __init__(self, model: nn.Module, budget: int, device: torch.device | str = "cpu") -> None:
        if budget < 1:
            raise CompositionError(f"A budget of {budget} bytes holds nothing: give the bytes of fast memory that the model may use.")
        self.model = model
        self.pager = Pager(budget, torch.device(device))
        self.names = {id(each): name for name, each in model.named_parameters()}
        self.lent: list[Lent] = []
        self.kept = 0

    @property
    def plan(self) -> MemoryPlan | None:
        """The plan in force; None before the first iteration has ended."""
        return self.pager.plan

    @property
    def trace(self) -> AccessTrace:
        """The accesses of the last iteration."""
        return self.pager.trace()

    @property
    def peak(self) -> int:
        """The most bytes that were in fast memory at once."""
        return self.pager.residents.peak

    @property
    def broken(self) -> int:
        """The number of iterations that left their plan."""
        return self.pager.broken

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """One forward pass and its backward pass. Afterwards the parameters are in their own memory again."""
        hooks = [hook for module in self.model.modules() if self._own(module) for hook in self._watch(module)]
        self.kept = 0
        self.pager.begin({name: each.data for name, each in self.model.named_parameters()})
        try:
            with saved_tensors_hooks(self._pack, self._unpack):
                yield
            self.pager.end()
        finally:
            self._restore()
            for hook in hooks:
                hook.remove()

    def _own(self, module: nn.Module) -> list[nn.Parameter]:
        return [each for each in module.parameters(recurse=False) if id(each) in self.names]

    def _watch(self, module: nn.Module) -> list[RemovableHandle]:
        return [
            module.register_forward_pre_hook(self._forward),
            module.register_forward_hook(self._forwarded),
        ]

    def _next(self, kind: str, times: int, module: nn.Module, given: Any) -> None:
        """The next operation begins: one pass of a layer, of `times` operations for each row and parameter."""
        own = self._own(module)
        rows = next((each.numel() // max(1, each.shape[-1]) for each in given if isinstance(each, Tensor) and each.dim()), 1)
        self.pager.next(f"{kind} {self.names[id(own[0])]}", float(times * rows * sum(each.numel() for each in own)))

    def _forward(self, module: nn.Module, given: Any) -> None:
        self._next("forward", 2, module, given)
        for parameter in self._own(module):
            home = parameter.data
            copy = self.pager.read(self.names[id(parameter)])
            self.lent.append(Lent(parameter, home, copy))
            parameter.data = copy

    def _forwarded(self, module: nn.Module, given: Any, output: Any) -> None:
        self._restore()
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        for each in outputs:
            if isinstance(each, Tensor) and each.requires_grad:
                each.register_hook(lambda gradient: self._next("backward", 4, module, (gradient,)))  # type: ignore[no-untyped-call]
                return

    def _restore(self) -> None:
        for lent in self.lent:
            lent.parameter.data = lent.home
        self.lent.clear()

    def _pack(self, value: Tensor) -> KeptValue:
        if value.layout is not torch.strided or not value.numel():
            return KeptValue("", value=value)
        for parameter, _, copy in self.lent:
            if value.untyped_storage().data_ptr() == copy.untyped_storage().data_ptr():
                block, offset = self.names[id(parameter)], int(value.storage_offset()) - int(copy.storage_offset())
                return KeptValue(block, tuple(value.shape), value.stride(), offset)
        self.kept += 1
        block = f"kept/{self.kept}"
        self.pager.make(block, value.detach())
        return KeptValue(block)

    def _unpack(self, kept: KeptValue) -> Tensor:
        if kept.value is not None:
            return kept.value
        found = self.pager.read(kept.block)
        return found.as_strided(kept.shape, kept.stride, found.storage_offset() + kept.offset) if kept.shape else found
