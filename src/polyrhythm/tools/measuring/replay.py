"""Steps of a given shape, replayed without their arithmetic: all that is exchanged is zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn

from polyrhythm.core.protocols.codec import Aggregation, Encoded, PacketCodec, packets
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.shuffle import TravellingFeed
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.strategy.exchange import AnyExchange
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.strategy.same_memory import share_among_models
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.watching.written import UnwatchedWeights
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.torch_private.one_process import no_torch_function
from polyrhythm.core.training.data.data import Batches
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError
from polyrhythm.tools.measuring.replayed_steps import BlockingSteps, CountedBatch, Taking, in_coroutine


@dataclass(frozen=True, slots=True)
class StepShape:
    """The size of a training function's step: its tensors, its floating-point operations, its samples; a batch of them.

    `frozen` parameters and `buffers`, by name, are exchanged when a run begins and ends. `classes` are the names of each module's classes.
    """

    layout: Layout
    flops: float
    samples: int
    batch: Any = field(default=(), repr=False)
    frozen: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    buffers: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    dtype: torch.dtype = torch.float32
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def zeros(self, count: int) -> tuple[Tensor, ...]:
        """Tensors of `count` samples of zeros like the batch's; none where samples are not tensors, or do not come from `batches`."""
        parts = self.batch if isinstance(self.batch, (tuple, list)) and all(isinstance(part, Tensor) for part in self.batch) else ()
        return tuple(part.new_zeros(()).expand(count, *part.shape[1:]) for part in parts)


@dataclass(frozen=True, slots=True)
class Replay:
    """A training function of a given shape: `steps` steps that exchange zeros and compute nothing.

    `batches` are the samples of a step of all workers, where samples travel. `taking` says how a worker takes its steps.
    """

    shape: StepShape
    steps: int
    batches: tuple[Tensor, ...] = field(default=(), repr=False)
    taking: Taking = in_coroutine

    def __call__(self, worker: Worker) -> None:
        """Take the steps; time passes by the runtime's profile."""
        model = _zeros(self.shape)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        worker.gradients.reached = True  # none are computed
        model, optimizer = worker.attach(model, optimizer)
        _refuse_unknown_sizes(worker.attached)
        for part in (part for replica in worker.attached for part in replica.parts):
            part.local.optimizer.plain_step = _stand_still
            part.local.writes.watched = UnwatchedWeights()
            _lie_together(part)
        self.taking(worker, self._blocking(worker, model, optimizer)).take(self.steps)

    def _blocking(self, worker: Worker, model: nn.Module, optimizer: torch.optim.Optimizer) -> BlockingSteps:
        if self.batches:
            batches = cast(Batches, worker.batches(self.batches, batch_size=self.shape.samples))
            return BlockingSteps(worker, model, optimizer, self.shape.samples, batches, cast(TravellingFeed, batches.feed).travel)
        return BlockingSteps(worker, model, optimizer, self.shape.samples, CountedBatch(worker, self.shape.samples))


def _refuse_unknown_sizes(attached: tuple[Replica, ...]) -> None:
    for part in (part for replica in attached for part in replica.parts):
        if part.agreement.payload.is_sized_by_data:
            raise CompositionError(
                f"A timing-only run computes no gradients, and {part.agreement.codec!r} sends {part.agreement.payload.value}, whose size "
                "depends on them: time a full run."
            )


class _Zeros(Tensor):
    """Zeros that stay so: a copy of them is themselves. What is computed with them is an ordinary tensor."""

    __torch_function__ = no_torch_function()

    def clone(self, **options: Any) -> Tensor:
        return self


@lru_cache(maxsize=64)
def _nothing(numel: int, dtype: torch.dtype) -> Tensor:
    """Zeros (numel,), the same for all workers of a run."""
    return torch.zeros(numel, dtype=dtype).as_subclass(_Zeros)


def _lie_together(part: Part) -> None:
    """Let one vector of zeros be the weights of all workers: theirs are zero, and what they exchange leaves them so."""
    if part.local.state.owned and not part.local.inner:
        weights = part.local.state.weights
        if weights is _nothing(weights.numel(), weights.dtype):
            return
        part.local.state.place(_nothing(weights.numel(), weights.dtype), owned=True)
        part.local.parameters.lie_in(part.local.state.weights)


@dataclass(frozen=True, slots=True, repr=False)
class SamePacket:
    """Encodes like `inner`, which sends values as they are. All workers send the same zeros, so these need not be copied for each."""

    inner: PacketCodec

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def traits(self) -> CodecTraits:
        return self.inner.traits

    @property
    def width(self) -> int:
        return self.inner.width

    def initial(self, layout: Layout) -> State:
        return self.inner.initial(layout)

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The inner codec's encoding of zeros."""
        return self.inner.encode(_nothing(value.numel(), value.dtype), layout, state, context)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        return self.inner.decode(packet, layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        return self.inner.aggregate(value, layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        return self.inner.residual(state, layout)


def sending_zeros(strategy: Strategy) -> Strategy:
    """The same strategy for the workers of one run, whose values are all zero."""
    _nothing.cache_clear()  # no run sees what another one has written there
    return Strategy(
        exchange=_sending_zeros(strategy.exchange),
        selected=[(selection, _sending_zeros(exchange)) for selection, exchange in strategy.selected],
        shuffle=strategy.shuffle,
        buffers=strategy.buffers,
        name=strategy.name,
    )


def _sending_zeros(exchange: AnyExchange) -> AnyExchange:
    codec = exchange.agreement.codec
    return exchange.with_pieces({"codec": SamePacket(packets(codec))}) if codec.traits.verbatim and codec.traits.makes_packets else exchange


def _stand_still() -> None:
    """A step from zeros by zeros."""


def _zeros(shape: StepShape) -> nn.Module:
    """A model of `shape`, all zero, in which every tensor has its own name: servers get the names, and two must not become one.

    It has the modules that have tensors, and those that these are in.
    """
    model, owners = _named_after(tuple(shape.classes.get("", ())))(), _owners((*shape.layout.names, *shape.frozen, *shape.buffers))
    for path, classes in shape.classes.items():  # parents come first
        parent, _, last = path.rpartition(".")
        if path in owners:
            model.get_submodule(parent).add_module(last, _named_after(tuple(classes))())
    common = _nothing(shape.layout.numel, shape.dtype)
    share_among_models(common)
    for name, view in zip(shape.layout.names, shape.layout.views(common.as_subclass(Tensor)), strict=True):
        owner, last = _owner(model, name)
        owner.register_parameter(last, nn.Parameter(view))
    for name, each in shape.frozen.items():
        owner, last = _owner(model, name)
        owner.register_parameter(last, nn.Parameter(torch.zeros_like(each), requires_grad=False))
    for name, each in shape.buffers.items():
        owner, last = _owner(model, name)
        owner.register_buffer(last, torch.zeros_like(each))
    return model


@lru_cache(maxsize=64)
def _owners(names: tuple[str, ...]) -> frozenset[str]:
    """The paths of the modules, but the whole model, that have the tensors of these names, directly or within."""
    parts = [name.split(".")[:-1] for name in names]
    return frozenset(".".join(path[:depth]) for path in parts for depth in range(1, len(path) + 1))


class _Still(nn.Module):
    """Takes anything and computes nothing."""

    def forward(self, x: object) -> None:
        return None


@cache
def _named_after(classes: tuple[str, ...]) -> type[nn.Module]:
    """A class of modules that compute nothing, and whose classes have these names: a selection may go by them."""
    kind: type[nn.Module] = _Still
    for name in reversed(classes[: classes.index("Module")] if "Module" in classes else ()):
        kind = type(name, (kind,), {})
    return kind


def _owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module within `model` that has the tensor `name`, and the last part of the name."""
    path, _, last = name.rpartition(".")
    return model.get_submodule(path), last
