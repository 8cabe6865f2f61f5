"""Models whose modules are replaced by a rank's own, and what is compared with one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.counted_axis import CountedAxis
from polyrhythm.partition.place import Place
from polyrhythm.partition.placement import placement_of
from polyrhythm.partition.style import Style

from .ranks import close


def divide(model: Any, styles: Mapping[str, Style], place: Place) -> Any:
    """The same model with the named modules in the place of the whole ones."""
    for name, style in styles.items():
        parent, _, last = name.rpartition(".")
        module = model.get_submodule(name)
        assert not style.refusal(module, place), style.refusal(module, place)
        setattr(model.get_submodule(parent), last, style.local(module, name, place))
    return model


def put_together(parts: Iterable[Mapping[str, Tensor]], whole: Mapping[str, Tensor]) -> None:
    """The ranks' parameters are pieces of those of one process, and nothing of these is missing."""
    found = {name: torch.full_like(value, torch.nan) for name, value in whole.items()}
    for part in parts:
        assert part.keys() == whole.keys()
        for name, value in part.items():
            placement_of(value).piece.put(value.detach(), found[name])
    for name, value in whole.items():
        close(found[name], value.detach())


def trained(model: nn.Module, loss: Callable[[nn.Module, int], Tensor], steps: int) -> list[Tensor]:
    """The loss at each step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(model, step)
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    return losses


def counted(sizes: Mapping[str, int], index: Mapping[str, int]) -> Place:
    """The place of one rank, on axes that move nothing; its parameters have no values."""
    axes: dict[str, Axis] = {name: CountedAxis(name, size, index[name]) for name, size in sizes.items()}
    return Place(axes)
