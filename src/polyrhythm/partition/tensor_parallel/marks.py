"""Activations that are marked with their grid, so that those of two grids are not taken for each other.

After each layer of `Cube` two axes have changed places: an activation has the same shape, and is another part of the whole. The first
forward pass of a region follows the marks through all operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from polyrhythm.errors import CompositionError

if TYPE_CHECKING:
    from polyrhythm.partition.tensor_parallel.grid import ActivationGrid

_MARK = "_polyrhythm_grid"


def marked(value: Tensor, grid: ActivationGrid) -> Tensor:
    """The same activation, which is on that grid."""
    setattr(value, _MARK, grid)
    return value


def check_mark(value: Tensor, grid: ActivationGrid) -> None:
    """Raise CompositionError for an activation that is marked with another grid."""
    if getattr(value, _MARK, grid) != grid:
        _refuse()


class FirstPass:
    """Hooks that follow marks in the first forward pass of a module."""

    def __init__(self, grid: ActivationGrid) -> None:
        self._grid = grid
        self._mode: _Following | None = None
        self._done = False

    def begin(self, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not self._done:
            for value in tree_leaves((given, named)):
                if isinstance(value, Tensor):
                    marked(value, self._grid)
            self._mode = _Following()
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def end(self, *_: Any) -> None:
        if self._mode is not None:
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._mode, self._done = None, True


class _Following(TorchFunctionMode):
    """What is computed from a marked activation has its mark; what is computed from two of different grids is refused."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        grids = [getattr(value, _MARK) for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor) and hasattr(value, _MARK)]
        if any(grid != grids[0] for grid in grids):
            _refuse()
        for value in tree_leaves(found) if grids else []:
            if isinstance(value, Tensor):
                marked(value, grids[0])
        return found


def _refuse() -> None:
    raise CompositionError(
        "In a divided region, an activation after an odd number of layers meets one after an even number, of which each rank has another "
        "part: add a residual after two layers, and register layers in the order in which they are applied."
    )
