"""Conversations without a network: all of them in lock step, every request answered exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import DTYPES, Message, wire_bytes
from polyrhythm.core.protocols.codec import Aggregated, Codec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllGatherRequest, AllReduceRequest, AllToAllRequest, CollectiveRequest, Packet
from polyrhythm.core.tensors import Layout, State

Values = Callable[[int, int], Tensor]
"""The value of a round and a rank."""

LAYOUT = Layout(("a.weight", "a.bias", "b.weight", "scale"), ((6, 5), (6,), (4, 3, 2), ()))


class CollectiveClient:
    """P workers in aggregation, round after round; every packet that they send is checked for the wire.

    `weights` gives those of a round, the same at all workers, from its number and their number; by default normal numbers.
    """

    def __init__(self, codec: Codec, layout: Layout, workers: int, weights: Callable[[int, int], Tensor] | None = None) -> None:
        self.codec = codec
        self.layout = layout
        self.weights = weights or normal
        self.contexts = [ExchangeContext(Group.of_workers(workers, rank), np.random.default_rng(rank)) for rank in range(workers)]
        self.clock = 0
        self.states: list[State] = [codec.initial(layout) for _ in self.contexts]
        self.questions: list[type[CollectiveRequest]] = []

    def round(self, values: Sequence[Tensor]) -> list[Aggregated]:
        """One aggregation: the result at each worker."""
        self.clock += 1
        aggregations = [
            self.codec.aggregate(value, self.layout, state, self.at_this_clock(context))
            for value, state, context in zip(values, self.states, self.contexts, strict=True)
        ]
        responses: list[Any] = [None] * len(aggregations)
        while True:
            questions, aggregated = [], []
            for aggregation, response in zip(aggregations, responses, strict=True):
                try:
                    questions.append(aggregation.send(response))
                except StopIteration as end:
                    aggregated.append(end.value)
            if aggregated:
                assert not questions, "some workers still ask when others have ended"
                self.states = [one.state for one in aggregated]
                return aggregated
            responses = self._respond(questions)

    def at_this_clock(self, context: ExchangeContext) -> ExchangeContext:
        """The context of a worker in the latest round."""
        return context.at(self.clock, self._weights)

    def _weights(self) -> Tensor:
        return self.weights(self.clock, self.layout.numel)

    def residual(self) -> Tensor:
        """What all workers owe together (numel,)."""
        return total([self.codec.residual(state, self.layout) for state in self.states])

    def _respond(self, questions: Sequence[CollectiveRequest]) -> list[Any]:
        kind = type(questions[0])
        assert {type(question) for question in questions} == {kind}, "all ask the same"
        self.questions.append(kind)
        workers = len(questions)
        if kind is AllReduceRequest:
            values = [question.value for question in questions if isinstance(question, AllReduceRequest)]
            assert len({(value.shape, value.dtype) for value in values}) == 1
            check_for_the_wire(tuple(values))
            return [total(values)] * workers
        if kind is AllGatherRequest:
            packets = [question.packet for question in questions if isinstance(question, AllGatherRequest)]
            for packet in packets:
                check_for_the_wire(packet)
            return [packets] * workers
        sent = [list(question.packets) for question in questions if isinstance(question, AllToAllRequest)]
        for row in sent:
            assert len(row) == workers
            for packet in row:
                check_for_the_wire(packet)
        return [[row[rank] for row in sent] for rank in range(workers)]


def total(values: Sequence[Tensor]) -> Tensor:
    """The sum in rank order."""
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def check_for_the_wire(packet: Packet) -> None:
    """Fail unless every tensor can be sent as it is."""
    for tensor in packet:
        assert tensor.is_contiguous()
        assert tensor.dtype in DTYPES
        assert tensor.device.type == "cpu"
        assert not tensor.requires_grad


def payload(packet: Packet) -> int:
    """The bytes of a packet on the wire, without the headers of the message and of its tensors."""
    heads = Message("", tensors=tuple(tensor.new_empty(0).view((0,) * tensor.dim()) for tensor in packet))
    return wire_bytes(Message("", tensors=packet)) - wire_bytes(heads)


def alone(layout: Layout | None = None, clock: int = 1) -> ExchangeContext:
    """An exchange of one worker, whose weights of `layout` are normal numbers."""
    context = ExchangeContext(Group.of_workers(1, 0), np.random.default_rng(0))
    return context.at(clock, lambda: normal(4711, 0 if layout is None else layout.numel))


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors agree in type, shape and every bit."""
    return left.dtype == right.dtype and left.shape == right.shape and left.numpy().tobytes() == right.numpy().tobytes()


def normal(seed: int, numel: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers (numel,)."""
    return torch.randn(numel, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
