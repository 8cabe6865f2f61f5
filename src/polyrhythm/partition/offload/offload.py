"""Weights and the optimizer's state in a file, of which memory has as much as a budget says (Ren et al., 2021; Fang et al., 2022)."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.settings import checked
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.units import size
from polyrhythm.errors import CompositionError
from polyrhythm.partition.offload.eviction import ChunkKey, Eviction, FurthestUse
from polyrhythm.partition.offload.mapped import MappedVector
from polyrhythm.partition.offload.residence import Residence

_WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
@checked
class Offload:
    """Keep weights and the optimizer's state in equal chunks in a file in `directory`, with `budget` bytes of them in memory.

    `chunk` are the bytes of one, rounded up to pages. The first step records which are used when; from the second on the one leaves that
    `eviction` chooses by that. Gradients and activations are in memory besides.
    """

    budget: str | int
    directory: str | None = None
    chunk: str | int = "1 MB"
    eviction: Eviction = field(default_factory=FurthestUse)

    def __post_init__(self) -> None:
        for name, given in (("budget", self.budget), ("chunk", self.chunk)):
            if size(given) < 1:
                raise CompositionError(f"Offload({name}={given!r}) is no memory: give 1 byte or more.")

    def residence(self) -> OffloadedVectors:
        """The chunks of one rank."""
        page = mmap.ALLOCATIONGRANULARITY
        return OffloadedVectors(self, -(-int(size(self.chunk)) // page) * page)


@dataclass
class _Flat:
    """Some parameters end to end in a vector, with what an optimizer keeps of them in others of the same length."""

    number: int
    parameters: Sequence[nn.Parameter]
    starts: dict[int, int]
    vectors: dict[str, MappedVector]
    step: Callable[[], Any]


class OffloadedVectors:
    """The chunks of a rank's models: `lay` moves parameters into them, `watch` has the passes of a model ask for them.

    `resident` says what is in memory.
    """

    def __init__(self, settings: Offload, chunk: int) -> None:
        self._settings, self._chunk = settings, chunk
        self._flats: list[_Flat] = []
        self._of: dict[int, _Flat] = {}
        self._stepped = False
        self.resident = Residence(int(size(settings.budget)), settings.eviction, self._load, self._drop)

    def lay(self, flat: Tensor, parameters: Sequence[nn.Parameter], step: Callable[[], Any]) -> Tensor:
        """A vector in a file with the values of `flat`, in which `parameters` are to lie; `step` is their optimizer's.

        Raises CompositionError for parameters that are not on the CPU.
        """
        if flat.device.type != "cpu":
            raise CompositionError(f"Offload is for weights on the CPU, and these are on {flat.device}: leave it out.")
        vector = MappedVector(flat.numel(), flat.dtype, self._settings.directory)
        vector.values.copy_(flat)
        starts, at = dict[int, int](), 0
        for parameter in parameters:
            starts[id(parameter)] = at
            at += parameter.numel()
            self._refuse_large(parameter, flat.element_size())
        found = _Flat(len(self._flats), parameters, starts, {_WEIGHTS: vector}, step)
        self._flats.append(found)
        self._of.update(dict.fromkeys(starts, found))
        for key in self._keys(found, parameters, (_WEIGHTS,)):
            self._drop(key[0])
        return vector.values

    def take(self, replica: Replica) -> None:
        """Have the weights of a replica in chunks, and the steps of its optimizer go chunk by chunk."""
        for local in replica.locals:
            number, parameters = len(self._flats), local.parameters
            flat = parameters.flat  # the same tensor for all who have it, in other memory
            flat.data = self.lay(flat, parameters.parameters, local.optimizer.plain_step)
            parameters.lie_in(flat)
            local.optimizer.plain_step = partial(self.step, number, local.optimizer.optimizer)
        self.watch(replica.model)

    def _refuse_large(self, parameter: nn.Parameter, itemsize: int) -> None:
        if (needed := parameter.numel() * itemsize) > self.resident.budget:
            raise CompositionError(
                f"A weight of {needed} bytes is larger than Offload's budget of {self.resident.budget}: give it more, or divide the weight."
            )

    def watch(self, model: nn.Module) -> None:
        """Have the chunks of each module's own weights in memory before its forward and its backward pass."""
        for module in model.modules():
            own = [each for each in module.parameters(recurse=False) if id(each) in self._of]
            if own:
                module.register_forward_pre_hook(lambda module, given, own=own: self.use(own))
                module.register_forward_hook(lambda module, given, made, own=own: self._before_backward(made, own))

    def _before_backward(self, made: Any, own: Sequence[nn.Parameter]) -> None:
        for each in (made,) if isinstance(made, Tensor) else made if isinstance(made, tuple | list) else ():
            if isinstance(each, Tensor) and each.requires_grad:
                each.register_hook(lambda gradient: self.use(own))  # type: ignore[no-untyped-call]

    def use(self, parameters: Sequence[nn.Parameter]) -> None:
        """Have these weights in memory."""
        if self._stepped:
            self._stepped = False
            self.resident.step_ends()
        found = dict[ChunkKey, int]()
        for parameter in parameters:
            found |= dict(self._keys(self._of[id(parameter)], [parameter], (_WEIGHTS,)))
        self.resident.use(list(found.items()))

    def step(self, number: int, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer's step on the parameters of the flat of that number, those that begin in one chunk after another."""
        flat, every = self._flats[number], [group["params"] for group in optimizer.param_groups]
        self._stepped = True
        try:
            for own in self._shelves(flat):
                ids = set(map(id, own))
                for group, whole in zip(optimizer.param_groups, every, strict=True):
                    group["params"] = [each for each in whole if id(each) in ids]
                self.resident.use(self._keys(flat, own, tuple(flat.vectors)))
                flat.step()
                self._move_states(flat, own, optimizer)
        finally:
            for group, whole in zip(optimizer.param_groups, every, strict=True):
                group["params"] = whole

    def _shelves(self, flat: _Flat) -> list[list[nn.Parameter]]:
        found: dict[int, list[nn.Parameter]] = {}
        for parameter in flat.parameters:
            found.setdefault(flat.starts[id(parameter)] * parameter.element_size() // self._chunk, []).append(parameter)
        return list(found.values())

    def _move_states(self, flat: _Flat, own: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        """Put what the optimizer keeps for each element into vectors of their own."""
        for parameter in own:
            state, start = optimizer.state.get(parameter, {}), flat.starts[id(parameter)]
            for name, value in state.items():
                if not isinstance(value, Tensor) or value.shape != parameter.shape or value.dtype != parameter.dtype or not value.dim():
                    continue
                if name not in flat.vectors:
                    numel = len(flat.vectors[_WEIGHTS].values)
                    flat.vectors[name] = MappedVector(numel, value.dtype, self._settings.directory)
                place = flat.vectors[name].values[start : start + value.numel()].view(value.shape)
                if place.data_ptr() != value.data_ptr():
                    self.resident.use(self._keys(flat, [parameter], (name,)))
                    place.copy_(value)
                    state[name] = place

    def _keys(self, flat: _Flat, own: Sequence[nn.Parameter], names: Sequence[str]) -> list[tuple[ChunkKey, int]]:
        """The chunks in which these parameters lie, in these vectors, with their bytes."""
        whole = flat.vectors[_WEIGHTS].values
        numbers = dict[int, None]()
        for parameter in own:
            start = flat.starts[id(parameter)] * whole.element_size()
            if parameter.numel():
                last = start + parameter.numel() * whole.element_size() - 1
                numbers |= dict.fromkeys(range(start // self._chunk, last // self._chunk + 1))
        return [((f"{flat.number}/{name}", number), self._span(whole, number)) for name in names for number in numbers]

    def _span(self, whole: Tensor, number: int) -> int:
        return min(whole.nbytes - number * self._chunk, self._chunk)

    def _bytes_of(self, key: ChunkKey) -> tuple[MappedVector, int, int]:
        number, _, name = key[0].partition("/")
        vector = self._flats[int(number)].vectors[name]
        start = key[1] * self._chunk
        return vector, start, start + self._span(vector.values, key[1])

    def _load(self, key: ChunkKey) -> int:
        vector, start, end = self._bytes_of(key)
        return vector.load(start, end)

    def _drop(self, key: ChunkKey) -> None:
        vector, start, end = self._bytes_of(key)
        vector.drop(start, end)
