"""A style for each module of a convolutional network whose images are divided: what must be asked of others, and what need not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from polyrhythm.errors import CompositionError
from polyrhythm.partition.convolution.dropout import SpatialDropout
from polyrhythm.partition.convolution.ends import SpatialMean, WholeImages
from polyrhythm.partition.convolution.image import Image
from polyrhythm.partition.convolution.image_style import ImageStyle
from polyrhythm.partition.convolution.locally_connected import LocallyConnected, LocallyConnected2d
from polyrhythm.partition.convolution.norm import SpatialNorm
from polyrhythm.partition.convolution.spatial import SpatialConv, SpatialPool
from polyrhythm.partition.kinds import BATCH_NORMS, CHANNEL_DROPOUTS

_WINDOWS: dict[type[nn.Module], Callable[[Image], ImageStyle]] = {
    nn.Conv2d: SpatialConv,
    nn.MaxPool2d: SpatialPool,
    nn.AvgPool2d: SpatialPool,
    LocallyConnected2d: LocallyConnected,
}
_ON_PARTS = ("detach", "clone", "alias", "_to_copy", "empty_like")
"""Operations that do the same on parts of images, besides those on single elements."""


def spatial_cut(
    model: nn.Module, shape: tuple[int, int, int, int], axes: tuple[str | None, str | None] = ("h", "w")
) -> dict[str, ImageStyle]:
    """The styles, by module, with which a model for inputs (samples, channels, height, width) divides images over `axes`.

    Convolutions, poolings and batch norms are divided up to the first `nn.AdaptiveAvgPool2d` or `nn.Flatten`, from where all ranks do the
    same. The model runs once without values, on the device "meta". Raises CompositionError where images are given to anything else than
    operations on single elements, within modules or outside of them.
    """
    watch = _Watch(axes)
    values = {name: value.to("meta") for name, value in (*model.named_parameters(), *model.named_buffers())}
    dtype = next((value.dtype for value in model.parameters()), None)
    with _hooks(model, watch), _evaluated(model), watch, torch.no_grad():
        torch.func.functional_call(model, values, (torch.empty(shape, dtype=dtype, device="meta"),))
    if not watch.ended:
        raise CompositionError("The images of the model never end: add an nn.AdaptiveAvgPool2d(1) or an nn.Flatten before its last layers.")
    return watch.styles


class _Watch(TorchDispatchMode):
    """Chooses the style of each module when it is called, and refuses operations that would be others on parts of images."""

    def __init__(self, axes: tuple[str | None, str | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._axes, self._inside = axes, 0
        self.styles: dict[str, ImageStyle] = {}
        self.ended = False

    def enter(self, name: str, module: nn.Module, shapes: list[tuple[int, ...]]) -> None:
        """The module is called with values of these shapes."""
        style = None if self.ended else self._style(name, module, [shape for shape in shapes if len(shape) == 4])
        if style is not None:
            self.ended |= style.ends
            if self.styles.setdefault(name, style) != style:
                raise CompositionError(f"{name} is called with images of two sizes: use two modules.")
            self._inside += 1

    def leave(self, name: str) -> None:
        """The module has returned."""
        self._inside -= name in self.styles

    def _style(self, name: str, module: nn.Module, shapes: list[tuple[int, ...]]) -> ImageStyle | None:
        if not shapes:
            return None
        image = Image(shapes[0][2], shapes[0][3], self._axes)
        if isinstance(module, BATCH_NORMS):
            return SpatialNorm(tuple(axis for axis in self._axes if axis))
        if isinstance(module, nn.AdaptiveAvgPool2d):
            return SpatialMean(image) if module.output_size in (1, (1, 1)) else WholeImages(image)
        if isinstance(module, nn.Flatten):
            return WholeImages(image)
        if isinstance(module, CHANNEL_DROPOUTS):
            raise CompositionError(f"{name} is a {type(module).__name__}, which does not drop single elements: use nn.Dropout.")
        if isinstance(module, nn.Dropout):
            return SpatialDropout(image)
        if type(module) in _WINDOWS:
            return _WINDOWS[type(module)](image)
        if list(module.parameters(recurse=False)):
            raise CompositionError(
                f"{name} is a {type(module).__name__}, which cannot be divided by height and width: end the images first."
            )
        return None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if not self.ended and not self._inside and not _same_on_parts(func, args):
            raise CompositionError(
                f"The model calls {func.overloadpacket} on images, which is another thing on parts of them: use a module of torch.nn for "
                "it, or do it after an nn.Flatten."
            )
        return func(*args, **(kwargs or {}))


def _same_on_parts(func: Any, args: tuple[Any, ...]) -> bool:
    if not any(isinstance(value, Tensor) and value.dim() == 4 for value in tree_leaves(args)):
        return True
    if func.overloadpacket is torch.ops.aten.cat:
        return (args[1] if len(args) > 1 else 0) in (0, 1, -3, -4)
    return torch.Tag.pointwise in func.tags or func.overloadpacket.__name__ in _ON_PARTS


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """While it runs, the modules do not train: a batch norm that trains may read how often it did."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@contextmanager
def _hooks(model: nn.Module, watch: _Watch) -> Iterator[None]:
    """While it runs, the modules of the model tell `watch` when they are called."""
    handles = [handle for name, module in model.named_modules() for handle in _hooked(name, module, watch)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hooked(name: str, module: nn.Module, watch: _Watch) -> tuple[Any, Any]:
    def enter(module: nn.Module, args: tuple[Any, ...]) -> None:
        watch.enter(name, module, [tuple(value.shape) for value in tree_leaves(args) if isinstance(value, Tensor)])

    def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        watch.leave(name)

    return module.register_forward_pre_hook(enter), module.register_forward_hook(leave)
