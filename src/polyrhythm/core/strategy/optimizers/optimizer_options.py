"""The options with which an optimizer was attached: a resumed run must have those of the checkpoint, or override them by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch

from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CheckpointError

_RATES = ("lr", "initial_lr", "max_lr", "min_lr")
"""Options of a group that schedules derive from its learning rate."""


@dataclass(frozen=True, slots=True)
class AttachedOptions:
    """The class of an optimizer, and the options of each of its groups, without parameters."""

    kind: str
    groups: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, optimizer: torch.optim.Optimizer) -> AttachedOptions:
        """The options that `optimizer` has now."""
        groups = ({key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups)
        return cls(type(optimizer).__name__, tuple(groups))

    def export(self) -> StateTree:
        """Numbers as they are, and other options as text."""
        return {"class": self.kind, "groups": [{key: _plain(value) for key, value in group.items()} for group in self.groups]}

    def refuse_others(self, there: StateTree, override: Collection[str]) -> None:
        """Raise CheckpointError where options differ from those that were exported `there`, and are not to be overridden."""
        if there["class"] != self.kind:
            raise CheckpointError(
                f"The optimizer is {self.kind} here and was {there['class']} in the run that wrote the checkpoint, whose state is of no "
                f"use to it: resume with {there['class']}, or begin a new run in another directory."
            )
        if len(there["groups"]) != len(self.groups):
            raise CheckpointError(
                f"The optimizer has {len(self.groups)} groups of parameters here and had {len(there['groups'])} in the run that wrote the "
                "checkpoint: resume with the groups of that run."
            )
        for number, (known, now) in enumerate(zip(there["groups"], self.export()["groups"], strict=True)):
            for name in dict.fromkeys((*known, *now)):
                if not same(known.get(name), now.get(name)) and name not in override:
                    where = f" of group {number}" if len(self.groups) > 1 else ""
                    raise CheckpointError(
                        f"{name}{where} of {self.kind} is {now.get(name)!r} here and was {known.get(name)!r} in the run that wrote the "
                        f"checkpoint: resume with that value, or take the one given here with override=[{name!r}] (--override {name})."
                    )

    def override(self, optimizer: torch.optim.Optimizer, there: StateTree, names: Collection[str]) -> None:
        """Give the groups of `optimizer`, which has been restored, the options of these `names` that differ from `there`.

        A learning rate that a schedule has changed since is changed by the same factor as the one at the beginning.
        """
        for group, known, now, factor in zip(optimizer.param_groups, there["groups"], self.groups, self.factors(there), strict=True):
            for name in names:
                if name == "lr" and factor != 1.0:
                    for rate in _RATES:
                        if isinstance(group.get(rate), float):
                            group[rate] = now["lr"] if group[rate] == known["lr"] else group[rate] * factor
                elif name in now and not same(_plain(now[name]), known.get(name)):
                    group[name] = now[name]

    def factors(self, there: StateTree) -> list[float]:
        """The factor of each group's learning rate, compared with `there`."""
        pairs = zip(there["groups"], self.groups, strict=True)
        return [now["lr"] / known["lr"] if known.get("lr") and isinstance(now.get("lr"), float) else 1.0 for known, now in pairs]


def same(one: Any, other: Any) -> bool:
    """True if the values are equal; NaN counts as equal to NaN."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(each, other[key]) for key, each in one.items())
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return float(value)
    if isinstance(value, (tuple, list)):
        return tuple(_plain(item) for item in value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
