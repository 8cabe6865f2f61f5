"""What workers do together besides training: collectives for the user's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import torch
from torch import Tensor

from polyrhythm.errors import WorkloadError
from polyrhythm.kernel.message import Message
from polyrhythm.kernel.port import Port
from polyrhythm.pieces.terms import Place
from polyrhythm.topology.algorithm import Algorithm
from polyrhythm.topology.broadcast import spread
from polyrhythm.topology.tree import Tree

Value = TypeVar("Value")


class Together:
    """One worker's side. Every worker makes the same calls in the same order; calls are counted, and the number is the topic.

    Sums go over a tree: 2 (P - 1) messages and 2 ⌈log2 P⌉ latencies.
    """

    def __init__(self, port: Port, place: Place, perform: Callable[[Any], Any]) -> None:
        self.port = port
        self.place = place
        self.perform = perform
        self.algorithm: Algorithm = Tree()
        self.calls = 0

    def _topic(self) -> str:
        self.calls += 1
        return f"user/{self.calls}"

    def total(self, value: Tensor) -> Tensor:
        """The sum over workers, the same bits for all, on the CPU."""
        summed: Tensor = self.perform(self.algorithm.reduce(self.port, self.place, value.detach().cpu().contiguous(), self._topic()))
        return summed

    def mean(self, value: float | Tensor) -> Any:
        """The mean over workers: a number of a number, a tensor like `value` of a tensor."""
        if isinstance(value, Tensor):
            if not value.is_floating_point():
                raise WorkloadError(f"worker.mean got a tensor of {value.dtype}, which has no mean: convert it with .float().")
            return (self.total(value) / self.place.workers).to(value.device)
        if not isinstance(value, (int, float)):
            raise WorkloadError(f"worker.mean got {value!r}: give a number or a tensor of floating-point numbers.")
        return self.total(torch.tensor([float(value)], dtype=torch.float64)).item() / self.place.workers

    def any(self, value: object) -> bool:
        """Whether it holds at one worker or more."""
        return self.total(torch.tensor([float(bool(value))])).item() > 0

    def broadcast(self, value: Value) -> Value:
        """Worker 0's value: a tensor, or what JSON can say (numbers, text, None, lists and dicts of them)."""
        topic = self._topic()
        message = self._told(topic, value) if self.place.rank == 0 else Message(topic)
        heard: Message = self.perform(spread(self.port, self.place, message))
        if heard.tensors:
            device = value.device if isinstance(value, Tensor) else "cpu"
            return heard.tensors[0].clone().to(device)  # type: ignore[return-value]
        told: Value = msgspec.json.decode(heard.text)
        return told

    @staticmethod
    def _told(topic: str, value: object) -> Message:
        if isinstance(value, Tensor):
            return Message(topic, tensors=(value.detach().cpu().contiguous(),))
        try:
            return Message(topic, text=msgspec.json.encode(value).decode())
        except (TypeError, msgspec.MsgspecError, OverflowError) as problem:
            raise WorkloadError(
                f"worker.broadcast got a {type(value).__name__}, which cannot be sent: give a tensor, or numbers, text, lists and dicts."
            ) from problem
