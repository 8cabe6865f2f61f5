"""Activations of a divided region are marked, and its first forward pass follows the marks through all operations.

After each layer of `Cube` two axes have changed places: an activation has the same shape, and is another part of the whole. And what goes
over samples or over features, such as a mean, is another thing on a part of them. Both are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from polyrhythm.errors import CompositionError

if TYPE_CHECKING:
    from polyrhythm.partition.tensor_parallel.grid import ActivationGrid

_MARK = "_polyrhythm_mark"
_OVER_DIMENSIONS = frozenset(
    (
        *("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "median", "var", "std", "var_mean", "std_mean"),
        *("logsumexp", "softmax", "log_softmax", "softmin", "cumsum", "cumprod"),
    )
)
_OVER_FEATURES = frozenset(("layer_norm", "rms_norm"))
_NEVER = frozenset(("batch_norm", "group_norm", "instance_norm", "dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d"))


class _Mark(NamedTuple):
    """An activation is on `grid`; its last dimension are features if it has `dims` dimensions, the last of the size `width`."""

    grid: ActivationGrid
    dims: int
    width: int

    def features(self, value: Tensor) -> set[int]:
        """The dimension of features of an activation, if it has one."""
        return {value.dim() - 1} if value.dim() == self.dims and value.shape[-1] == self.width else set()


def marked(value: Tensor, grid: ActivationGrid) -> Tensor:
    """The same activation, which is on that grid."""
    has_features = value.is_floating_point() and value.dim() > 0
    setattr(value, _MARK, _Mark(grid, value.dim(), value.shape[-1]) if has_features else _Mark(grid, -1, 0))
    return value


def check_mark(value: Tensor, grid: ActivationGrid) -> None:
    """Raise CompositionError for an activation that is marked with another grid."""
    mark = getattr(value, _MARK, None)
    if mark is not None and mark.grid != grid:
        _refuse_meeting()


class FirstPass:
    """Hooks that follow marks in the first forward pass of a region, but not within its divided `layers`."""

    def __init__(self, grid: ActivationGrid, layers: Sequence[nn.Module]) -> None:
        self._grid, self._layers = grid, layers
        self._mode: _Following | None = None
        self._handles: list[Any] = []
        self._done = False

    def begin(self, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._done:
            return
        for value in tree_leaves((given, named)):
            if isinstance(value, Tensor):
                marked(value, self._grid)
        self._mode = mode = _Following()
        for layer in self._layers:
            self._handles += [layer.register_forward_pre_hook(mode.enter), layer.register_forward_hook(mode.leave)]
        mode.__enter__()  # type: ignore[no-untyped-call]

    def end(self, *_: Any) -> None:
        if self._mode is not None:
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        for handle in self._handles:
            handle.remove()
        self._mode, self._handles, self._done = None, [], True


class _Following(TorchFunctionMode):
    """What is computed from a marked activation has its mark."""

    def __init__(self) -> None:
        super().__init__()
        self._inside = False

    def enter(self, _: nn.Module, given: tuple[Any, ...]) -> None:
        """A layer begins."""
        self._inside = True

    def leave(self, _: nn.Module, given: tuple[Any, ...], found: Tensor) -> None:
        """A layer has ended."""
        self._inside = False
        if not hasattr(found, _MARK) and hasattr(given[0], _MARK):
            marked(found, getattr(given[0], _MARK).grid)

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor) and hasattr(value, _MARK)]
        if self._inside or not given:
            return found
        mark: _Mark = getattr(given[0], _MARK)
        if any(getattr(value, _MARK).grid != mark.grid for value in given):
            _refuse_meeting()
        _check_dimensions(getattr(func, "__name__", ""), args, kwargs or {}, mark)
        for value in tree_leaves(found):
            if isinstance(value, Tensor):
                setattr(value, _MARK, mark)
        return found


def _check_dimensions(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], mark: _Mark) -> None:
    """Raise CompositionError for what goes over the samples or the features of an activation."""
    value = args[0] if args and isinstance(args[0], Tensor) else None
    if value is None or not hasattr(value, _MARK):
        return
    last = mark.features(value)
    if name in _NEVER or (name in _OVER_FEATURES and last):
        _refuse_part(name)
    given = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    if name in _OVER_DIMENSIONS and not isinstance(given, Tensor):
        dims = range(value.dim()) if given is None else (given,) if isinstance(given, int) else given
        if {dim % value.dim() for dim in dims} & ({0} | last):
            _refuse_part(name)


def _refuse_part(name: str) -> None:
    raise CompositionError(
        f"A divided region calls {name} on an activation, over samples or features of which each rank has a part: do it outside of the "
        "region, or by a layer that can be divided, such as nn.LayerNorm or nn.Dropout."
    )


def _refuse_meeting() -> None:
    raise CompositionError(
        "In a divided region, an activation after an odd number of layers meets one after an even number, of which each rank has another "
        "part: add a residual after two layers, and register layers in the order in which they are applied."
    )
