"""Collectives for the user's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import DTYPES, Message
from polyrhythm.core.kernel.replica_sums import ReplicaSums
from polyrhythm.core.protocols.sharded import PendingSum
from polyrhythm.core.training.collectives.call_record import CallRecord
from polyrhythm.core.training.collectives.plain import decoded, encoded
from polyrhythm.core.training.collectives.user_collectives import UserCall, UserCollectives
from polyrhythm.core.training.numbers import holds, number
from polyrhythm.errors import WorkloadError

Value = TypeVar("Value")

_PLAIN = "plain"
"""The text of a message whose tensor is a value's bytes."""


class Together:
    """One worker's side. Every worker makes the same calls in the same order; calls are counted.

    `group` is all workers; means and sums of samples are over replicas, whose numbers `sums` adds up.
    """

    def __init__(
        self, collective: UserCollectives, group: Group, sums: ReplicaSums, perform: Callable[[Any], Any], calls: CallRecord
    ) -> None:
        self.collective = collective
        self.group = group
        self.sums = sums
        self.perform = perform
        self.record = calls
        self.calls = 0
        self.lost: frozenset[str] = frozenset()
        """Workers of a model in parts that are absent."""

    def regroup(self, collective: UserCollectives, group: Group, sums: ReplicaSums) -> None:
        """Call together with other workers from now on; calls are counted anew."""
        self.collective, self.group, self.sums, self.calls = collective, group, sums, 0

    def barrier(self) -> None:
        """Return when every worker has called it."""
        self._total("barrier", torch.zeros(1), self.group)

    def mean(self, value: float | Tensor) -> Any:
        """The mean over workers: a number of a number, a tensor like `value` of a tensor."""
        if self.lost:
            raise WorkloadError(
                f"worker.mean is over the replicas of a part of the model, and with {', '.join(sorted(self.lost))} lost it would be "
                "another one for each part: use worker.gather, or what worker.train_step returns."
            )
        if isinstance(value, Tensor):
            if not value.is_floating_point():
                raise WorkloadError(f"worker.mean got a tensor of {value.dtype}, which cannot be averaged: convert it with .float().")
            total, workers = self._total("mean", self.sums.given(value), self.sums.group)
            return (total / self.sums.counted(workers)).to(value.device)
        single = number("worker.mean got", value, "a number or a tensor of floating-point numbers")
        own = self.sums.given(torch.tensor([single], dtype=torch.float64))
        total, workers = self._total("mean", own, self.sums.group)
        return total.item() / self.sums.counted(workers)

    def any(self, value: object) -> bool:
        """True at every worker if `value` is true at one worker or more."""
        return self._total("any", torch.tensor([float(holds("worker.any", value))]), self.group)[0].item() > 0

    def begin(self, value: Tensor) -> PendingSum:
        """Start the sum of `value` over the workers, in the background; implements `BackgroundSums`."""
        own = self.sums.given(value)
        return _Pending(self.perform, self.perform(self.collective.begin(own, self._next("batches"), self.sums.group)))

    def broadcast(self, value: Value) -> Value:
        """Worker 0's value: a tensor, or a plain value, of the same types at every worker."""

        def sent() -> tuple[str, list[Tensor]]:  # the first may be another one when it is made again
            return self._broadcast(_encoded(value) if self.group.is_first else Message(""))

        text, [tensor] = self.record.made(sent)
        if text != _PLAIN:
            device = value.device if isinstance(value, Tensor) else "cpu"
            return tensor.clone().to(device)  # type: ignore[return-value]
        value_of_0: Value = decoded(tensor.numpy().tobytes())
        return value_of_0

    def gather(self, value: Value) -> list[Value]:
        """The value of every worker that is left, by rank, the same at each: tensors, of any shapes and types, or plain values."""
        own, size, rank = _packed(value), self.group.size, self.group.rank  # these ranks hold to the end, whoever is lost
        place = torch.zeros(size, dtype=torch.int64)
        place[rank] = len(own)
        sizes = self._total("gather", place, self.group)[0].tolist()
        # each worker's bytes in a range that is zero at all others, so that the sum has all of them
        whole = torch.zeros(sum(sizes), dtype=torch.uint8)
        begin = sum(sizes[:rank])
        whole[begin : begin + len(own)] = own
        parts = torch.split(self._total("gather", whole, self.group)[0].to(torch.uint8), sizes)  # a sum of bytes may be of a wider type
        return [_unpacked(part) for part in parts if part[:1].any()]  # no message begins with a zero, and a lost worker has sent none

    def _total(self, kind: str, value: Tensor, group: Group) -> tuple[Tensor, int]:
        """The sum over the workers of `group` that are left, the same bits for all, on the CPU; and the number of these workers."""
        own = value.detach().cpu().contiguous()

        def summed() -> tuple[Tensor, int]:
            now = self.sums.group if group is self.sums.group else self.group
            return self.perform(self.collective.total(own, self._next(kind), now))  # type: ignore[no-any-return]

        found: tuple[Tensor, int] = self.record.made(summed)
        return found

    def _broadcast(self, message: Message) -> tuple[str, list[Tensor]]:
        received: Message = self.perform(self.collective.broadcast(message, self._next("broadcast"), self.group))
        if self.record.keeps:  # nobody is two calls ahead of another that the loss of a worker interrupts
            self.perform(self.collective.total(torch.zeros(1), self._next("broadcast"), self.group))
        return received.text, list(received.tensors)

    def _next(self, kind: str) -> UserCall:
        self.calls += 1
        return UserCall(kind, self.calls)


@dataclass(frozen=True, slots=True)
class _Pending:
    perform: Callable[[Any], Any]
    end: Callable[[], Any]

    def result(self) -> Tensor:
        total: Tensor = self.perform(self.end())[0]
        return total


def _packed(value: object) -> Tensor:
    """Bytes that hold a tensor, or a plain value."""
    if not isinstance(value, Tensor):
        return _bytes_of(encoded((value,)))
    data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return _bytes_of(encoded([str(value.dtype).removeprefix("torch."), list(value.shape), data.numpy().tobytes()]))


def _unpacked(data: Tensor) -> Any:
    held = decoded(data.numpy().tobytes())
    if isinstance(held, tuple):
        return held[0]
    kind, shape, raw = held
    dtype = getattr(torch, kind)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape) if raw else torch.empty(shape, dtype=dtype)


def _bytes_of(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _encoded(value: object) -> Message:
    if isinstance(value, Tensor):
        if value.dtype not in DTYPES:
            raise WorkloadError(
                f"worker.broadcast got a tensor of {value.dtype}, which cannot be sent: convert it, or give a view of another dtype."
            )
        return Message("", tensors=(value.detach().cpu().contiguous(),))
    return Message("", text=_PLAIN, tensors=(_bytes_of(encoded(value)),))
