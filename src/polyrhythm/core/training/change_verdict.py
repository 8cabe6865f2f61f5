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
    `Regrouped`, `began` as in `ChangingCrew`, `gone` as in `ChangeVerdict`.
    """

    progress: tuple[int, ...]
    clock: int = 0
    completed: int = 0
    exchanged: int = 0
    alike: bool = True
    paced: bool = True
    used: StateTree = None
    began: dict[str, int] = {}
    gone: list[str] = []
    meets: bool = False
    trained: int = 0


class ChangeVerdict(msgspec.Struct, frozen=True):
    """The decision of the first of a view: `donor` gives its state to the `takers`, which continue from it and repeat nothing.

    `furthest` is as in `HandOver`. `used` is what each member of the view before has used of the data, lost ones too. Takers that are
    `beginners` have no state yet. `began` are the steps that the members of the next view have completed, takers with the donor's state,
    and `gone` the servers that somebody knows to be lost. `trained` is as in `HandOver`.
    """

    donor: str
    takers: list[str]
    furthest: int
    used: dict[str, StateTree]
    beginners: list[str] = []
    began: dict[str, int] = {}
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
    view, steps = change.after, dict(change.steps)
    if all(found[name].progress == (NONE,) for name in view.members):
        raise StateLostError(
            f"All workers that had the state of the run are lost: {', '.join(view.members)} had joined it, and did not have the state yet. "
            "Start the run again, from its newest checkpoint if it writes them."
        )
    newest = max(found[name].progress for name in view.members)
    donor = next(name for name in view.members if found[name].progress == newest)
    takers = [name for name in view.members if found[name].progress < newest]
    known = {name: facts for name, facts in found.items() if facts.used is not None}  # else it was interrupted before it began
    survivors = [name for name in before if name in known and name in view.members]
    attached = [name for name in survivors if name in takers and len(found[name].progress) == len(newest)]
    stepping = [name for name in attached if found[name].progress[:-1] < newest[:-1]]  # and not in a call, or where a model begins
    behind = next(iter(stepping), None)
    reference = found[behind or donor]
    lost = used_at(reference.used, completed=behind is not None)
    exchanged = max(facts.exchanged for facts in known.values())
    began = next((facts.began for facts in known.values() if facts.began), {})
    completed = {name: max(facts.completed, began.get(name, 0)) for name, facts in known.items() if facts.progress != (NONE,)}

    furthest = max(survivors, key=lambda name: completed.get(name, 0), default=donor)
    paced = all(found[name].paced for name in survivors) or any(found[name].meets for name in survivors)
    pace = completed[furthest] if paced and not stepping else 0

    def used_by(name: str) -> StateTree:
        if name in stepping and completed[name] + 1 >= completed[furthest]:
            return used_at(known[name].used, completed=True)
        if name in known:
            ahead = name in stepping or (name in survivors and completed.get(name, pace) < pace)
            return used_at(known[furthest].used) if ahead else known[name].used
        if name not in steps or (reference.alike and behind is not None):
            return lost
        last = completed[behind or donor]
        own = min(max(steps[name], exchanged), last) if reference.alike else steps[name]
        return earlier(lost, last - began.get(behind or donor, 0) - (own - began.get(name, 0)))

    used = {name: used_by(name) for name in before}
    beginners = [name for name in takers if found[name].progress == (NONE,)]
    here = {name: completed.get(name, max(completed.values())) + (name in stepping) for name in view.members}
    gone = sorted({name for facts in found.values() for name in facts.gone})
    furthest_clock, trained = max(facts.clock for facts in found.values()), max(facts.trained for facts in found.values())
    return ChangeVerdict(donor, takers, furthest_clock, used, beginners, here, gone, trained)
