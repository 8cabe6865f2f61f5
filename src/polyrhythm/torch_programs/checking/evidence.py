"""What the detectors read: what was seen of the layout and of the twin, and how they belong together."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyrhythm.torch_programs.checking.places import ParameterPlaces
from polyrhythm.torch_programs.checking.seen import Sight, StepSeen

_ULPS = {torch.float64: 4096, torch.bfloat16: 16, torch.float16: 16}


@dataclass(slots=True)
class LayoutEvidence:
    """The layout as it ran and its one-process twin, if there is one. `pair` are both as they can be compared: with the same samples, and
    without dropout; None where they cannot. `spreads` are relative changes of gradients by rounding alone, by step and parameter."""

    layout: Sight
    twin: Sight | None
    places: ParameterPlaces
    pair: tuple[Sight, Sight] | None = None
    spreads: dict[tuple[int, str], float] = field(default_factory=dict)

    def tolerance(self, step: int, key: str) -> float:
        """The relative difference that rounding explains."""
        return max(8 * self.spreads.get((step, key), 0.0), self.floor)

    def least(self, gradients: dict[str, Tensor]) -> float:
        """The norm below which the difference of one parameter's gradient is seen relative to all of `gradients`."""
        whole = float(torch.cat(list(gradients.values())).nan_to_num().norm()) if gradients else 0.0
        return max(1e-4, self.floor) * whole

    @property
    def floor(self) -> float:
        """What is allowed in any case, by the coarsest type in which the program computes, or reduces in the backward pass."""
        types = {each for seen in self.layout.ranks.values() for each in seen.computed} or {torch.float32}
        moved = (each for seen in self.layout.ranks.values() for each in seen.moved if each.how and each.backward)
        types |= {each.dtype for each in moved if each.dtype in _ULPS}
        return max(_ULPS.get(each, 64) * torch.finfo(each).eps for each in types)


def relative(difference: Tensor, of: Tensor, least: float = 0.0) -> float:
    """The norm of `difference` by that of `of`, or `least`."""
    known = ~(torch.isnan(difference) | torch.isnan(of))
    scale = max(float(of[known].norm()), least)
    return float(difference[known].norm()) / scale if scale else 0.0


def proportional(value: Tensor, to: Tensor) -> tuple[float, float]:
    """The factor of `to` that is nearest to `value`, and how far the rest is, relative to `value`."""
    known = ~(torch.isnan(value) | torch.isnan(to))
    value, to = value[known].double(), to[known].double()
    square, norm = float(to @ to), float(value.norm())
    if square == 0 or norm == 0:
        return 1.0, 0.0 if square == norm == 0 else 1.0
    factor = float(value @ to) / square
    return factor, float((value - factor * to).norm()) / norm


def line(tensor: Tensor) -> Tensor:
    """Its elements in double precision."""
    return tensor.flatten().double()


def place_of_step(steps: dict[int, StepSeen], ranks: tuple[int, ...] = ()) -> str:
    """The line of the optimizer's step, of the first rank that took it."""
    return next((seen.where for rank, seen in steps.items() if seen.where and (not ranks or rank in ranks)), "")
