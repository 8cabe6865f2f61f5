"""Where the images of a model cease to be divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from polyrhythm.partition.convolution.distribution import Distribution, ImageBatch
from polyrhythm.partition.convolution.image import Image, check_part
from polyrhythm.partition.convolution.window import Line
from polyrhythm.partition.moves import gather, total
from polyrhythm.partition.place import Place
from polyrhythm.partition.style import Style


@dataclass(frozen=True, slots=True)
class SpatialMean:
    """Divide the images of an `nn.AdaptiveAvgPool2d(1)`, which it is given at the size `image`: all ranks get the means."""

    ends: ClassVar = True
    by_samples: ClassVar = True

    image: Image

    def among(self, samples: tuple[str, ...], axes: tuple[str | None, str | None]) -> SpatialMean:
        return SpatialMean(self.image.over(axes))

    @property
    def along(self) -> tuple[str, ...]:
        return self.image.along

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.AdaptiveAvgPool2d) or module.output_size not in (1, (1, 1)):
            return f"SpatialMean divides nn.AdaptiveAvgPool2d(1), and this is {module}: use WholeImages, which puts the images together."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        return SpatialMeanModule(self.image.lines(place))


class SpatialMeanModule(nn.Module):
    """Parts of images (samples, channels, own height, own width) to means (samples, channels, 1, 1), equal at all ranks."""

    def __init__(self, lines: tuple[Line, Line]) -> None:
        super().__init__()
        self._lines = lines

    def forward(self, value: Tensor) -> Tensor:
        check_part(value, self._lines)
        summed = value.sum((2, 3), keepdim=True)
        for line in self._lines:
            summed = total(summed, line.axis) / line.length
        return summed


@dataclass(frozen=True, slots=True)
class WholeImages:
    """Put images together, which are of the size `image`, before any module, such as an `nn.Flatten`: all ranks do the same from there."""

    ends: ClassVar = True
    by_samples: ClassVar = True

    image: Image

    def among(self, samples: tuple[str, ...], axes: tuple[str | None, str | None]) -> WholeImages:
        return WholeImages(self.image.over(axes))

    @property
    def along(self) -> tuple[str, ...]:
        return self.image.along

    def refusal(self, module: nn.Module, place: Place) -> str:
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        lines = self.image.lines(place)

        def join(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            value, *others = args
            check_part(value, lines)
            for line in reversed(lines):
                value = gather(value, line.axis, line.dim, line.sizes)
            return value, *others

        kept = place.keep(module, name)
        kept.register_forward_pre_hook(join)
        return kept


@dataclass(frozen=True, slots=True)
class WholeSamples:
    """Put the samples together, which are divided as `distribution` says, of what a module divided by `style` returns."""

    style: Style
    batch: ImageBatch
    distribution: Distribution

    @property
    def along(self) -> tuple[str, ...]:
        return self.distribution.axes

    def refusal(self, module: nn.Module, place: Place) -> str:
        return self.style.refusal(module, place)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        def join(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
            return self.batch.join(output, place, self.distribution)

        local = self.style.local(module, name, place)
        local.register_forward_hook(join)
        return local
