"""What the members of a crew report when it changes, and what the first of the next view decides.

`changing` sends both; nothing here communicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from polyrhythm.core.kernel.view import ViewChange
from polyrhythm.core.protocols.deals import earlier, used_at
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import StateLostError

NONE = -1
"""The progress of a worker that has no state yet."""


class Facts(msgspec.Struct, frozen=True):
    """What a worker reports to the first of the next view: completed exchanges as its `progress`, or NONE, and the data that it has `used`.

    `clock` are its steps with the one that was interrupted, `completed` without; `exchanged`, `alike`, `paced`, `meets` and `trained` as in
    `Regrouped`, `began` and `dealt` as in `ChangingCrew`, `gone` as in `ChangeVerdict`.
    """

    progress: tuple[int, ...]
    clock: int = 0
    completed: int = 0
    exchanged: int = 0
    alike: bool = True
    paced: bool = True
    used: StateTree = None
    began: dict[str, int] = {}
    dealt: dict[str, int] = {}
    gone: list[str] = []
    meets: bool = False
    trained: int = 0


class ChangeVerdict(msgspec.Struct, frozen=True):
    """The decision of the first of a view: `donor` gives its state to the `takers`, which continue from it and repeat nothing.

    `furthest` is as in `HandOver`. `used` is what each member of the view before has used of the data, lost ones too. Takers that are
    `beginners` have no state yet. `began` are the steps that the members of the next view have completed, takers with the donor's state,
    and `dealt` those for which each has its batches already, also where it has not completed them. `gone` are the servers that somebody
    knows to be lost. `trained` is as in `HandOver`.
    """

    donor: str
    takers: list[str]
    furthest: int
    used: dict[str, StateTree]
    beginners: list[str] = []
    began: dict[str, int] = {}
    dealt: dict[str, int] = {}
    gone: list[str] = []
    trained: int = 0


def judged(change: ViewChange, before: Sequence[str], found: Mapping[str, Facts]) -> ChangeVerdict:
    """The verdict on the facts of all who have reported.

    A lost worker has used so many batches less than another as it has completed fewer steps in the view that is over. But where exchanges
    have one result, it has used those of all steps up to the last exchange that somebody has completed, which its value was in, and of none
    after those of the others. Those who take equally many steps, and are behind, keep as many of their batches, which count as used;
    so do those whose training function calls what waits for all, perhaps at each step.

    Raises StateLostError if nobody who has reported has the state of the run.
    """
    view = change.after
    if all(found[name].progress == (NONE,) for name in view.members):
        raise StateLostError(
            f"All workers that had the state of the run are lost: {', '.join(view.members)} had joined it, and did not have the state yet. "
            "Start the run again, from its newest checkpoint if it writes them."
        )
    newest = max(found[name].progress for name in view.members)
    donor = next(name for name in view.members if found[name].progress == newest)
    takers = [name for name in view.members if found[name].progress < newest]
    judge = _Judge(change, before, found, donor)
    stepping, completed = judge.stepping, judge.completed
    here = {name: completed.get(name, max(completed.values())) + (name in stepping) for name in view.members}
    return ChangeVerdict(
        donor,
        takers,
        max(facts.clock for facts in found.values()),
        {name: judge.used_by(name) for name in before},
        [name for name in takers if found[name].progress == (NONE,)],
        here,
        {name: completed[judge.furthest] if judge.keeps(name) else count for name, count in here.items()},
        sorted({name for facts in found.values() for name in facts.gone}),
        max(facts.trained for facts in found.values()),
    )


class _Judge:
    """How far each of the members `before` has come, from what was `found` of those who have reported; the `donor` has the newest state.

    `stepping` are survivors that continue from the donor's state, and not in a call, or where a model begins. `completed` are the steps
    of each, and nobody who stays has completed more than the `furthest`.
    """

    def __init__(self, change: ViewChange, before: Sequence[str], found: Mapping[str, Facts], donor: str) -> None:
        members, newest = change.after.members, found[donor].progress
        self._lost = dict(change.steps)
        self._known = {name: facts for name, facts in found.items() if facts.used is not None}  # else it was interrupted before it began
        self._survivors = [name for name in before if name in self._known and name in members]
        attached = [name for name in self._survivors if len(found[name].progress) == len(newest)]
        self.stepping = [name for name in attached if found[name].progress[:-1] < newest[:-1]]
        self._behind = bool(self.stepping)
        self._witness = self.stepping[0] if self._behind else donor
        began = next((facts.began for facts in self._known.values() if facts.began), {})
        reported = {name: facts for name, facts in self._known.items() if facts.progress != (NONE,)}
        self.completed = {name: max(facts.completed, began.get(name, 0)) for name, facts in reported.items()}
        self.furthest = max(self._survivors, key=lambda name: self.completed.get(name, 0), default=donor)
        staying = [found[name] for name in self._survivors]
        paced = all(each.paced for each in staying) or any(each.meets for each in staying)
        self._pace = self.completed[self.furthest] if paced and not self._behind else 0

    def keeps(self, name: str) -> bool:
        """True if the worker is behind, and keeps as many of its batches as the furthest has used."""
        own = self.completed.get(name, self._pace)
        return own + 1 < self.completed[self.furthest] if name in self.stepping else name in self._survivors and own < self._pace

    def used_by(self, name: str) -> StateTree:
        """What the worker has used of the data."""
        if self.keeps(name):
            return used_at(self._known[self.furthest].used)
        if name in self._known:
            return used_at(self._known[name].used, completed=True) if name in self.stepping else self._known[name].used
        witness = self._known[self._witness]
        lost = used_at(witness.used, completed=self._behind)
        if name not in self._lost or (witness.alike and self._behind):
            return lost
        last, since, own = self.completed[self._witness], witness.dealt, self._lost[name]
        if witness.alike:
            own = min(max(own, max(facts.exchanged for facts in self._known.values())), last)
        return earlier(lost, last - since.get(self._witness, 0) - (own - since.get(name, 0)))
