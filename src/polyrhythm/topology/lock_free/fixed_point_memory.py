"""Weights in few bits, in memory that all workers of a host share, and write without locks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.offers import NOTHING, Offers
from polyrhythm.core.protocols.responses import AdoptWeights, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.shared_memory.fixed_point import read_into
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import IN_MEMORY
from polyrhythm.topology.lock_free.host_memory import HostMemory, refuse_device
from polyrhythm.topology.lock_free.row_counters import RowCounters
from polyrhythm.topology.lock_free.weight_rounding import StochasticRounding, WeightRounding

_TYPES = {8: torch.int8, 16: torch.int16}


@dataclass(frozen=True, slots=True)
@checked
class FixedPointMemory:
    """SharedMemory with weights of `bits` bits, 8 or 16, to which updates are rounded (Buckwild!; De Sa et al., NIPS 2015).

    A worker reads all weights after each of its steps, and subtracts what its optimizer did from those that are there then. A tensor has
    one scale, a power of two for which `headroom` times its largest first weight, and `least`, are in range; what leaves the range
    becomes its end. Lost writes are counted by row, as under SharedMemory.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.UPDATE}), "in shared memory", IN_MEMORY)
    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    bits: int = 8
    rounding: WeightRounding = StochasticRounding()  # noqa: RUF009 (a frozen value)
    headroom: float = 4.0
    least: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or self.bits not in _TYPES:
            raise CompositionError(f"FixedPointMemory(bits={self.bits!r}) is no whole number of bytes that it knows: give 8 or 16.")
        if getattr(type(self.rounding), "subtract", None) is None:
            raise CompositionError(
                f"FixedPointMemory(rounding={self.rounding!r}) does not say how to round: give StochasticRounding() or NearestRounding()."
            )
        for name, value, bound in (("headroom", self.headroom, 1.0), ("least", self.least, 0.0)):
            if isinstance(value, bool) or not bound <= value < math.inf or not value:
                raise CompositionError(
                    f"FixedPointMemory({name}={value!r}) gives no range of weights: give a finite number above zero"
                    f"{', 1 or more' if bound else ''}."
                )

    def workers(self, available: int) -> int:
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _FixedPointChannel(self, endpoint)

    def scale(self, weights: Tensor) -> float:
        """The value of one unit, for a tensor that begins with `weights`: a power of two, so that it divides without rounding."""
        largest = float(weights.abs().max()) if weights.numel() else 0.0
        return 2.0 ** math.ceil(math.log2(max(self.headroom * largest, self.least) / (2 ** (self.bits - 1) - 1)))


class _FixedPointChannel:
    """`shared` are the weights (numel,) in units of the `scales` (tensors,) of their tensors, which lie behind them."""

    def __init__(self, settings: FixedPointMemory, endpoint: WorkerEndpoint) -> None:
        self.settings = settings
        self.group = endpoint.group
        self.port = endpoint.port
        self.memory = HostMemory(endpoint)
        self.layout = Layout((), ())
        self.dtype = torch.float32
        self.shared: Tensor
        self.scales: Tensor
        self.counters: RowCounters
        self.rows: Tensor
        self.offers = NOTHING

    async def establish(self, initial: InitialState) -> Response:
        weights, self.layout = initial.model_state.weights, initial.model_state.layout
        refuse_device(weights, self.port.name, self.settings)
        self.dtype = weights.dtype
        narrow, rows, count = _TYPES[self.settings.bits], sum(self.layout.rows), len(self.layout.names)
        nbytes = weights.numel() * narrow.itemsize
        at = nbytes + -nbytes % 4
        first, end = RowCounters.place(at + 4 * count, rows, self.group.size)

        def fill(memory: Tensor) -> None:
            scales = [self.settings.scale(part) for part in self.tensors_of(weights)]
            memory[at : at + 4 * count].view(torch.float32).copy_(torch.tensor(scales))
            for held, part, scale in zip(self.tensors_of(memory[:nbytes].view(narrow)), self.tensors_of(weights), scales, strict=True):
                held.copy_((part.float() / scale).round())

        content = await self.memory.open(end, fill)
        self.shared = content[:nbytes].view(narrow)
        self.scales = content[at : at + 4 * count].view(torch.float32)
        self.counters = RowCounters(content[first:end], self.group)
        self.rows = torch.arange(rows)
        return AdoptWeights(self.read())

    def tensors_of(self, flat: Tensor) -> list[Tensor]:
        """The tensors of `flat` (numel,), each as a vector."""
        return [view.view(-1) for view in self.layout.views(flat)]

    def read(self) -> Tensor:
        """The weights (numel,) as they are now, in the type of the model's."""
        values = torch.empty(self.layout.numel)
        for held, scale, into in zip(self.tensors_of(self.shared), self.scales.tolist(), self.tensors_of(values), strict=True):
            read_into(held, scale, into)
        return values.to(self.dtype)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        draw = self.port.rng("rounding")
        parts = self.tensors_of(value.float().contiguous())
        for held, scale, update in zip(self.tensors_of(self.shared), self.scales.tolist(), parts, strict=True):
            self.settings.rounding.subtract(held, update, scale, draw)
        self.counters.count(self.rows)
        return AdoptWeights(self.read())

    async def finish(self) -> Response:
        """Wait until nobody writes any more; then everyone reads."""
        await self.memory.end()
        if self.group.is_first and self.memory.concurrent:
            self.offers = Offers(writes=self.counters.writes())
        return AdoptWeights(self.read())

    async def drain(self, step: int) -> str:
        """Nothing is under way: between two steps nobody writes."""
        return ""

    def export(self) -> StateTree:
        return {"counters": self.counters.export(), "shared": self.shared, "scales": self.scales}

    def restore(self, state: StateTree) -> None:
        self.counters.restore(state["counters"])
        self.take_over(state, own=True)

    def take_over(self, state: StateTree, own: bool) -> None:
        """The first worker restores the weights, in the units that they had; writes are counted anew."""
        if self.group.is_first:
            self.scales.copy_(state["scales"])
            self.shared.copy_(state["shared"])

    def inherit(self, residual: Tensor) -> None:
        """No codec keeps anything back."""

    def states(self) -> list[tuple[State, Tensor]]:
        """Nothing is encoded, and nothing kept back."""
        return []
