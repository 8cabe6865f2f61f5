"""A part of a model that ranks with the same samples do on different ones of them, as layers of experts need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_map

from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.equal_weights import EqualWeights
from polyrhythm.partition.experts.mixture import MixtureOfExperts
from polyrhythm.partition.moves import gather, shard
from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style


@dataclass(frozen=True, slots=True)
class Samplewise:
    """Keep a module whole, and give each rank of `axis` some of the samples that are the same at all of them; its outputs are put together.

    Samples are along the first dimension of what the module is given and of what it returns, but for scalars, such as an auxiliary loss.
    `inside` are the styles of the modules within it that need other samples, such as `Experts("ep")`, and of dropouts: each replaces those
    that it does not refuse.
    """

    axis: str = "ep"
    inside: tuple[Style, ...] = ()

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        equal = EqualWeights((self.axis,), self.inside)
        return equal.unanswered(module, place, (nn.Dropout, MixtureOfExperts)) or equal.refusal(module, place)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        local = EqualWeights((self.axis,), self.inside).local(module, name, place)
        dealt = _Dealt(place.axis(self.axis))
        local.register_forward_pre_hook(dealt.enter)
        local.register_forward_hook(dealt.leave)
        return local


class _Dealt:
    """Where samples are dealt out, and where they are put together; it remembers how many there are."""

    def __init__(self, axis: Axis) -> None:
        self._axis, self._samples = axis, 0

    def enter(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        self._samples = next(len(value) for value in args if isinstance(value, Tensor))
        return tree_map(lambda value: shard(value, self._axis, 0) if isinstance(value, Tensor) else value, args)

    def leave(self, module: nn.Module, args: tuple[Any, ...], found: Any) -> Any:
        sizes = near_equal(self._samples, self._axis.size)
        return tree_map(lambda value: gather(value, self._axis, 0, sizes) if isinstance(value, Tensor) and value.dim() else value, found)
