"""A rank's place on the mesh, as the styles of a cut see it: its axes, and the pieces of parameters that it makes there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import Axis
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.placement import Placement, origin_of, originated, placed, placement_of

Initial = Callable[[Tensor, str, Piece], Tensor]
"""What a piece of a parameter of that name begins with."""


def cut_out(parameter: Tensor, name: str, piece: Piece) -> Tensor:
    """The piece of a parameter that has values."""
    return piece.take(parameter.detach())


def without_memory(parameter: Tensor, name: str, piece: Piece) -> Tensor:
    """The piece of a parameter that has no values yet."""
    return torch.empty(piece.shape, dtype=parameter.dtype, device="meta")


@dataclass(frozen=True)
class Place:
    """The `axes` of the mesh by name, as this rank sees them. `seed` is the run's; `initial` gives pieces of parameters their values.

    Parameters without memory get it on `device`, when all of their model are divided. `replica` is the number of this rank's replica, among
    those that compute on different samples. `joints` are axes along two of the mesh's at once, by their names, the outer first: coordinates
    count the inner one the fastest. `numbers` are those of the
    replicas along a data axis, where they are not its coordinates. `now` is a clock in seconds.
    """

    axes: Mapping[str, Axis]
    seed: int = 0
    initial: Initial = cut_out
    device: str = "cpu"
    replica: int = 0
    joints: Mapping[tuple[str, str], Axis] = field(default_factory=dict)
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    now: Callable[[], float] | None = None
    _made: dict[int, tuple[Tensor, nn.Parameter]] = field(default_factory=dict)

    def axis(self, name: str) -> Axis:
        """The axis of that name. Raises CompositionError if the mesh has none."""
        if name not in self.axes:
            has = ", ".join(self.axes) or "none"
            raise CompositionError(
                f"The cut names the axis {name!r}, and the mesh has {has}: add it to the mesh, or cut over one of these."
            )
        return self.axes[name]

    def joint(self, one: str, other: str) -> tuple[Axis, bool]:
        """The axis along both, and whether `one` is the outer of them. Raises CompositionError if there is none."""
        for outer, inner in ((one, other), (other, one)):
            if (outer, inner) in self.joints:
                return self.joints[outer, inner], outer == one
        self.axis(one), self.axis(other)
        raise CompositionError(
            f"Routes go along {one} and {other} at once, and no axis is along both: give Place(joints={{({other!r}, {one!r}): axis}})."
        )

    def parameter(self, whole: Tensor, name: str, piece: Piece | None = None, *axes: str) -> nn.Parameter:
        """This rank's `piece` of the parameter, by default all of it, which is divided over these axes; tied ones are made once.

        What `whole` is placed by already, such as the stage that has it, is kept. Raises CompositionError for a tied parameter that is
        divided in two ways.
        """
        before = placement_of(whole)
        chosen = Placement(before.piece if piece is None else piece, (*axes, *before.axes), before.copy_of)
        if id(whole) in self._made:
            _, made = self._made[id(whole)]
            if made._polyrhythm_placement != chosen:  # type: ignore[attr-defined]
                raise CompositionError(f"{name} is tied to a weight that is divided in another way: divide both modules by the same style.")
            return made
        initial = without_memory if whole.is_meta else self.initial
        made = nn.Parameter(initial(whole, name, chosen.piece), whole.requires_grad)
        originated(made, *origin_of(whole, name))
        self._made[id(whole)] = whole, placed(made, chosen)  # the whole is kept, so that no other gets its id
        self._made[id(made)] = made, made  # a module that stands at two places may come again
        return made

    def made(self, whole: Tensor) -> nn.Parameter | None:
        """What was made of a parameter of the whole model; None if this rank has nothing of it."""
        found = self._made.get(id(whole))
        return None if found is None else found[1]

    def keep(self, module: nn.Module, name: str, divided: tuple[str, ...] = ()) -> nn.Module:
        """The module with all of its parameters and buffers, equal at all ranks; its submodules that are `divided` stay as they are.

        `name` is its own in the model, "" for the model itself. A module that stands at several places is visited once: its parameters
        would else be made anew at each.
        """
        inside = tuple(f"{path}." for path in divided)
        for path, each in module.named_modules():
            if f"{path}.".startswith(inside):
                continue
            for own, parameter in list(each.named_parameters(recurse=False)):
                setattr(each, own, self.parameter(parameter, ".".join(filter(None, (name, path, own)))))
        return module
