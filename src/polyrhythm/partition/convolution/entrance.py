"""Where the images of a model begin to be divided, if all ranks are given whole batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from polyrhythm.partition.convolution.distribution import Distribution, ImageBatch
from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style


class BatchDivision(Protocol):
    """A way to divide a batch, such as an `Image` and `Channels`."""

    def part(self, value: Tensor, place: Place) -> Tensor:
        """Invariant to varying: this rank's part of a whole batch."""


@dataclass(frozen=True, slots=True)
class DistributedBatch:
    """A batch that is divided as `distribution` says."""

    batch: ImageBatch
    distribution: Distribution

    def part(self, value: Tensor, place: Place) -> Tensor:
        """Invariant to varying: this rank's part of a whole batch."""
        return self.batch.part(value, place, self.distribution)


@dataclass(frozen=True, slots=True)
class FromWhole:
    """A module that is given a whole batch, of which each rank takes its part by `division`, and has this `style` for it."""

    style: Style
    division: BatchDivision

    @property
    def along(self) -> tuple[str, ...]:
        return self.style.along

    def refusal(self, module: nn.Module, place: Place) -> str:
        return self.style.refusal(module, place)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        def part(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            value, *others = args
            return self.division.part(value, place), *others

        local = self.style.local(module, name, place)
        local.register_forward_pre_hook(part, prepend=True)
        return local


def from_whole(cut: Mapping[str, Style], division: BatchDivision) -> dict[str, Style]:
    """The same cut of a model that all ranks give whole batches, which go to its first module alone."""
    first = next(iter(cut))
    return {**cut, first: FromWhole(cut[first], division)}
