"""Where a parameter lives: its piece, and the axes over which it is divided.

Modules of a partition place their parameters when they make them; checkpoints, norms, the result and `explain` read the placements.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from polyrhythm.core.protocols.partition import divide_over
from polyrhythm.partition.piece import Piece

_PLACED, _ORIGIN = "_polyrhythm_placement", "_polyrhythm_origin"


@dataclass(frozen=True, slots=True)
class Placement:
    """A rank's `piece` of a parameter, which is divided over the mesh's `axes`; along all others the ranks have equal pieces.

    Along an axis of stages a parameter is at some ranks only. Where more than one has it, since it is tied, the first is its owner; at the
    others `copy_of` is its name in the whole model. Copies are equal to the owner's, and neither norms nor results count them.
    """

    piece: Piece
    axes: tuple[str, ...] = ()
    copy_of: str = ""


def placed(parameter: nn.Parameter, placement: Placement) -> nn.Parameter:
    """The same parameter, with its placement noted."""
    setattr(parameter, _PLACED, placement)
    divide_over(parameter, placement.axes)
    return parameter


def originated(parameter: nn.Parameter, whole: Tensor, name: str) -> None:
    """Note of which whole tensor without memory, called `name` in its model, a parameter is a piece."""
    setattr(parameter, _ORIGIN, (whole, name))


def origin_of(parameter: Tensor, name: str) -> tuple[Tensor, str]:
    """The whole tensor without memory of which `parameter` is a piece, and its name; itself and `name`, where no module has divided it."""
    found: tuple[Tensor, str] = getattr(parameter, _ORIGIN, (parameter, name))
    return found


def placement_of(parameter: Tensor) -> Placement:
    """The placement of a parameter: the whole of it, where no module has divided it."""
    found: Placement | None = getattr(parameter, _PLACED, None)
    return Placement(Piece.all_of(parameter.shape)) if found is None else found
