"""The three stages of ZeRO (Rajbhandari et al., 2020): what of a unit's weights and gradients a rank keeps, and when they are moved.

Psi parameters of four bytes, N ranks, Adam: stage 1 keeps 8 Psi + 8 Psi / N bytes, stage 2 keeps 4 Psi + 12 Psi / N, stage 3 16 Psi / N and
one unit. In a step a rank sends (N - 1) / N times 2 Psi elements, in stage 3 three times Psi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks

from polyrhythm.core.torch_private.one_process import version
from polyrhythm.errors import WorkloadError
from polyrhythm.partition.zero.unit import Unit

_AHEAD = "_polyrhythm_complete_in_the_step"
"""The mark of a gradient that stands where the step will have one."""


_COMPLETE = "_polyrhythm_complete"
"""The mark of a gradient that the step has."""


class ShardedUnit(Protocol):
    """A unit in one of the stages."""

    @property
    def unit(self) -> Unit:
        """The unit."""

    @property
    def wholes(self) -> Sequence[Tensor]:
        """The whole weights that are kept from one step to the next."""

    def computing(self) -> AbstractContextManager[None]:
        """A context in which the unit's modules have their whole weights."""

    def complete(self) -> None:
        """Give the shards their gradients: the optimizer's step begins."""


class _Wholes(Protocol):
    """Where a forward pass gets the whole weights of a unit from."""

    def take(self) -> list[Tensor]:
        """The whole weights."""

    def end(self) -> None:
        """The backward pass of the unit is over."""


class _Kept:
    """ShardedWeights that are kept, and gathered again after a step, and when the shards were written to."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._versions: list[int] = []
        self._wholes: list[Tensor] = []

    @property
    def wholes(self) -> list[Tensor]:
        """Those that are kept."""
        return self._wholes

    def take(self) -> list[Tensor]:
        versions = [version(shard) for shard in self.unit.shards]
        if versions != self._versions:
            if self._wholes:
                self.unit.gather([whole.data for whole in self._wholes])
            else:
                self._wholes = self.unit.gather()
            self._versions = versions
        return self._wholes

    def stepped(self) -> None:
        """The shards change now; an exchange may write to them without a trace."""
        self._versions = []

    def end(self) -> None:
        """They stay."""


class ShardedOptimizer:
    """ShardedUnit 1: all have the weights and their own gradients, which are reduced when the step begins; each steps on its shards."""

    def __init__(self, unit: Unit) -> None:
        self.unit, self._kept = unit, _Kept(unit)
        self._noted: list[tuple[Tensor, int]] = []
        self._before: dict[int, Tensor] = {}
        for shard in unit.shards:
            if shard.requires_grad:
                shard.register_hook(_refuse_reading)  # type: ignore[no-untyped-call]

    @property
    def wholes(self) -> Sequence[Tensor]:
        return self._kept.wholes

    @contextmanager
    def computing(self) -> Iterator[None]:
        wholes = self._kept.take()
        for whole, shard in zip(wholes, self.unit.shards, strict=True):
            if shard.requires_grad and not whole.requires_grad:
                whole.requires_grad_()
                whole.register_hook(self._arriving)  # type: ignore[no-untyped-call]
                whole.register_post_accumulate_grad_hook(self._note)  # type: ignore[no-untyped-call]
        with self.unit.seated(wholes):
            yield

    def _arriving(self, gradient: Tensor) -> None:
        """Forget the gradients of passes before, if they were cleared and no step was taken on them."""
        if self._noted and all(_cleared(shard.grad, noted) for shard, (_, noted) in zip(self._trained, self._noted, strict=True)):
            for shard, whole in zip(self.unit.shards, self._kept.wholes, strict=True):
                shard.grad = whole.grad = None
            self._noted, self._before = [], {}

    @property
    def _trained(self) -> list[Tensor]:
        return [shard for shard in self.unit.shards if shard.requires_grad]

    def _note(self, whole: Tensor) -> None:
        """Let the shards have gradients that nobody should write to: they are complete in the step alone."""
        if not self._noted:
            for shard in self._trained:
                if shard.grad is None:
                    shard.grad = torch.full_like(shard, torch.nan)
                elif not getattr(shard.grad, _AHEAD, False):  # of steps before, which nobody has cleared
                    self._before[id(shard)] = shard.grad.clone()
                setattr(shard.grad, _AHEAD, True)
                self._noted.append((shard.grad, version(shard.grad)))

    def complete(self) -> None:
        """Raises WorkloadError where gradients were changed after the backward pass."""
        replaced = [
            shard.grad is not None and shard.grad is not gradient and not getattr(shard.grad, _COMPLETE, False)
            for shard, (gradient, _) in zip(self._trained, self._noted, strict=bool(self._noted))
        ]
        if any(replaced) or any(version(gradient) != noted for gradient, noted in self._noted):
            raise WorkloadError(
                "Gradients were changed between backward() and step(), such as by clip_grad_norm_, and under Zero(1) they are complete in "
                "the step alone: clip by worker.attach(..., clip_norm=), or take Zero(2), whose gradients are complete after backward()."
            )
        noted = {id(gradient) for gradient, _ in self._noted}
        self._noted = []
        wholes = self._kept.take()
        for shard, gradient in zip(self.unit.shards, self.unit.reduce([whole.grad for whole in wholes]), strict=True):
            before = shard.grad  # of another unit that has the parameter too
            if before is None or id(before) in noted:
                before = self._before.pop(id(shard), None)
            shard.grad = before if gradient is None else gradient if before is None else before + gradient
            if shard.grad is not None:
                setattr(shard.grad, _COMPLETE, True)
        for whole in wholes:
            whole.grad = None
        self._kept.stepped()


def _cleared(gradient: Tensor | None, noted: int) -> bool:
    """True if what stood for a gradient was taken away, or is zeros now."""
    return gradient is None or (version(gradient) != noted and not bool(gradient.any()))


def _refuse_reading(gradient: Tensor) -> None:
    raise WorkloadError(
        "A loss has a weight that was read outside of its module's forward pass, where a worker has some of its rows only: use it inside, "
        "leave a penalty to the optimizer's weight_decay, or take Zero(2), which adds up penalties of single elements."
    )


class ShardedGradients:
    """ShardedUnit 2: all have the weights; gradients are reduced in the backward pass, and each keeps those of its shards."""

    def __init__(self, unit: Unit) -> None:
        self.unit, self._kept = unit, _Kept(unit)

    @property
    def wholes(self) -> Sequence[Tensor]:
        return self._kept.wholes

    @contextmanager
    def computing(self) -> Iterator[None]:
        with self.unit.seated(_seen(self.unit, self._kept)):
            yield

    def complete(self) -> None:
        """They are complete."""
        self._kept.stepped()


class ShardedWeights:
    """ShardedUnit 3: weights are gathered for the forward pass of a unit, and again for its backward pass; each keeps its shards."""

    wholes: Sequence[Tensor] = ()

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    @contextmanager
    def computing(self) -> Iterator[None]:
        once = _Pass(self.unit)
        seen = _seen(self.unit, once)
        once.know(seen)
        with self.unit.seated(seen), saved_tensors_hooks(once.pack, once.unpack):
            yield
        once.forget()

    def complete(self) -> None:
        """They are complete."""


class _Pass:
    """One forward pass of a unit, and its backward pass: weights are not saved in between, and are gathered once in the latter."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._places: dict[int, int] = {}
        self._again: list[Tensor] = []

    def take(self) -> list[Tensor]:
        return self.unit.gather()

    def know(self, wholes: Sequence[Tensor]) -> None:
        """Note where the weights are in memory."""
        self._places = {hash(whole.untyped_storage()): place for place, whole in enumerate(wholes) if whole.numel()}

    def forget(self) -> None:
        """The forward pass is over: other tensors may have that memory."""
        self._places = {}

    def pack(self, saved: Tensor) -> Any:
        """Save the place of a weight, or of a view of one, and anything else as it is."""
        place = self._places.get(hash(saved.untyped_storage())) if saved.numel() else None
        return saved if place is None else (place, saved.shape, saved.stride(), saved.storage_offset())

    def unpack(self, packed: Any) -> Tensor:
        """What was saved, of weights that are gathered again."""
        if isinstance(packed, Tensor):
            return packed
        self._again = self._again or self.unit.gather()
        place, shape, stride, offset = packed
        view: Tensor = self._again[place].as_strided(shape, stride, offset)
        return view

    def end(self) -> None:
        self._again = []


def _seen(unit: Unit, wholes: _Wholes) -> Sequence[Tensor]:
    """The whole weights, as the unit's modules compute with them."""
    if not torch.is_grad_enabled():
        return wholes.take()
    return _Reduced.apply(unit, wholes, *unit.shards)  # type: ignore[no-untyped-call,no-any-return]


class _Reduced(Function):
    """The whole weights, whose gradients are reduced to those of the shards."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, wholes: _Wholes, *shards: Tensor) -> tuple[Tensor, ...]:
        ctx.unit, ctx.wholes = unit, wholes
        ctx.set_materialize_grads(False)
        return tuple(whole.detach() for whole in wholes.take())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        ctx.wholes.end()
        return (None, None, *ctx.unit.reduce(gradients))
