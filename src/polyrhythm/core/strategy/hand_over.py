"""What a worker continues from in the next view of its crew. `training.changing` makes it, and replicas take it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from polyrhythm.core.trees import StateTree

Kept = Sequence[tuple[Sequence[Tensor], Sequence[Sequence[Any]]]]
"""What each channel of each part of a replica has not sent (numel,), and what the part's own has sent for sums that have not come."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """The `state` to continue from, the worker's `own` or a donor's, and those of workers that have `left`, for one of the others.

    `furthest` is the number of steps of the worker that has taken most, which is `ahead` by so many: where each has weights of its own and
    all exchange at the same steps, the others take theirs up to that one alone. `used` is what each member of the view before has used of
    the data, and `donor` the worker whose position those have who have joined. `kept` is what this worker's replicas had not sent where the
    `state` is a donor's. `trained` is the number of training steps of a model in parts that somebody has completed: all have then.
    """

    state: StateTree
    own: bool
    left: Sequence[StateTree] = ()
    furthest: int = 0
    used: Mapping[str, StateTree] = field(default_factory=dict)
    donor: str = ""
    kept: Sequence[Kept] = ()
    trained: int = 0
    ahead: int = 0

    def of_replica(self, number: int) -> HandOver:
        """What the replica of that number continues from."""
        return replace(self, state=self.state["replicas"][number], left=[each["replicas"][number] for each in self.left])
