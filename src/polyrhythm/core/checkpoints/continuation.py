"""The state from which a worker of a resumed run continues, also where other workers have written the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from polyrhythm.core.checkpoints.checkpoint import Checkpoint
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.common_state import CommonState, Donor
from polyrhythm.core.trees import StateTree

Part = Callable[[StateTree], StateTree]
"""Takes a part of the state of a worker."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The `state` that a worker continues from: its `own`, or that of a worker that it joins.

    Where the workers or their groups are others than those that wrote it, the state is taken over (`changed`): the first worker has the
    states of those that have `left`, and all have the `positions` in the data of all former workers, by name, in the order of ranks.
    """

    state: StateTree
    changed: bool = False
    own: bool = True
    left: tuple[StateTree, ...] = ()
    positions: Mapping[str, StateTree] = field(default_factory=dict)
    donor: Donor | None = None
    former: tuple[StateTree, ...] = ()
    """The states of all workers that wrote it, where their models were in other parts, or another strategy exchanged."""
    switched: bool = False
    """True where another strategy wrote it: the exchange begins anew."""

    @staticmethod
    def relaid(checkpoint: Checkpoint, first: bool) -> Continuation:
        """That of a worker whose models are in other parts than at those that wrote it; the `first` counts the samples of all."""
        states = {each: checkpoint.read(each) for each in checkpoint.manifest.members}
        counting = {name: state for name, state in states.items() if state["counts"]}
        positions = {name: state["position"] for name, state in counting.items()}
        former = tuple(states.values())
        return Continuation(former[0], True, False, tuple(counting.values()) if first else (), positions, former=former)

    @staticmethod
    def among(checkpoint: Checkpoint, name: str, members: Sequence[str]) -> Continuation:
        """That of the worker `name` of a changed crew of `members`. Only the first reads the files of those that have left."""
        former = checkpoint.manifest.members
        own = name in former
        left = tuple(checkpoint.read(each) for each in former if each not in members) if name == View.of(members).first else ()
        positions = {each: checkpoint.read_plain(each, "position") for each in former}
        donor = partial(checkpoint.read, former[0])
        return Continuation(checkpoint.read(name) if own else donor(), True, own, left, positions, donor)

    @staticmethod
    def switched_among(checkpoint: Checkpoint, name: str, members: Sequence[str]) -> Continuation:
        """That of the worker `name` of `members` in a run of another strategy."""
        former = tuple(checkpoint.read(each) for each in checkpoint.manifest.members)
        return replace(Continuation.among(checkpoint, name, members), former=former, switched=True)

    @property
    def counted(self) -> list[StateTree]:
        """The states whose samples this worker counts: its own, and those of workers that have left."""
        return [self.state, *self.left] if self.own else list(self.left)

    def _donor(self, part: Part) -> Donor | None:
        donor = self.donor
        return None if donor is None else lambda: part(donor())

    def give(self, each: CommonState, part: Part) -> None:
        """Have `each` continue from its part of the state."""
        if self.former:
            each.take_over(part(self.state), False)
        elif self.changed:
            each.take_over(part(self.state), self.own, [part(other) for other in self.left], self._donor(part))
        else:
            each.restore(part(self.state))
