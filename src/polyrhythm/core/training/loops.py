"""The loops that a training function has started, as a checkpoint records them, and those that a resumed run starts again.

`position.DataPosition` keeps them for a worker; `Data` gives the facts about the data of each pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.protocols.shuffle import Batch
from polyrhythm.core.training.other_way import OtherWay, ended_early, other_data, other_loop, refusal, too_short
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CheckpointError


class DataFacts(NamedTuple):
    """Facts about the data of a pass: their kind, the number of samples, the batch size of a worker, and a digest of some of them.

    `samples` is -1 where the number is unknown, `digest` empty where the data are not in memory.
    """

    kind: str
    samples: int
    batch_size: int
    digest: str


NUMBERS = DataFacts("worker.range", -1, 0, "")
"""The facts of a loop over numbers."""

REQUEST, STEP, SAVE = "request", "step", "save"
"""Places where a checkpoint is written, or a resumed run arrives: the request of an item, a step outside of loops, worker.save()."""
DATA = "data"
"""The name in `override` by which a resumed run may take other data or another batch size."""


@dataclass(slots=True)
class UserLoop:
    """A pass through data, or a loop over numbers, of which `taken` items were handed out.

    `number` counts the passes, and is -1 for a loop over numbers. It was started when its `parent`, by its place in the list of all, had
    handed out `at` items; -1 is no parent. It is `over` at its end or when it was left before, and `used` if any of its batches
    belonged to a step that was taken. Its last `fresh` items were handed out since the last step; the loop has `stepped` when it is taken.

    A loop that is `detached` continues through the iterations of others; it is `asked` where `next()` takes one item at a time from it, and
    not a `for`. Its first `prefix` items were handed out before the first step, where no other loop was under way.
    """

    number: int
    data: DataFacts
    parent: int = -1
    at: int = 0
    taken: int = 0
    over: bool = False
    used: bool = False
    asked: bool = False
    prefix: int = 0
    fresh: int = 0
    stepped: bool = False
    detached: bool = False


def current(loops: Sequence[UserLoop], place: int) -> list[int]:
    """The places of the loops in whose present iterations the loop at `place` was started, the innermost first."""
    found = []
    while (parent := loops[place].parent) >= 0 and not loops[parent].over and loops[place].at == loops[parent].taken:
        found.append(parent)
        place = parent
    return found


def made_before(loops: Sequence[UserLoop], data: DataFacts) -> bool:
    """True if a pass through the same data is over, of which steps have used batches."""
    return any(each.number >= 0 and each.data == data and each.over and each.taken > each.prefix for each in loops)


def export(loops: Sequence[UserLoop]) -> StateTree:
    """The loops as a tree that a checkpoint can hold."""
    known = list(dict.fromkeys(loop.data for loop in loops))
    rows = [[each.number, known.index(each.data), *(getattr(each, name) for name in _RECORDED)] for each in loops]
    return {"data": [list(each) for each in known], "loops": rows}


def restored(state: StateTree) -> list[UserLoop]:
    """The loops that were exported."""
    known = [DataFacts(*each) for each in state["data"]]
    return [UserLoop(number, known[data], **dict(zip(_RECORDED, rest, strict=True))) for number, data, *rest in state["loops"]]


def used(loops: Sequence[UserLoop], deals: Deals) -> StateTree:
    """What a worker has used of the passes under way, and the batches that it holds: handed out, with the step still to come."""
    passes = [loop for loop in loops if loop.number >= 0]
    return deals.used(len(passes), [(loop.number, loop.taken, loop.fresh) for loop in passes if not loop.over])


def used_in(state: StateTree, members: Sequence[str]) -> StateTree:
    """What the worker has used whose position was exported as `state`, in a run of `members`."""
    deals = Deals(Group("", tuple(members), 0))
    deals.restore(state.get("deals"))
    return used(restored(state), deals)


_RECORDED = ("parent", "at", "taken", "over", "used", "asked", "detached", "prefix")


class WayBack:
    """The way of a resumed training function to its checkpoint: the loops that it starts again, `left` in the order of their first start.

    Loops in `again` hand out once more the item in whose iteration the checkpoint was written. A loop that was over is started again, and
    is empty, unless it was in an earlier iteration of another loop, which is not repeated. Code before the first step runs again, so loops
    `before` that step hand out again all the items that they did. `asking` is the loop that continues. `newcomer` is the name of a worker
    that has joined others, and comes to where they are.
    """

    def __init__(self, loops: Sequence[UserLoop], again: Sequence[int] = (), asking: int = -1, newcomer: str = "") -> None:
        self.loops = loops
        self.newcomer = newcomer
        self.again = frozenset(again)
        self.asking = asking
        self.ended: list[int] = []
        self.before = {place for place, loop in enumerate(loops) if place != asking and loop.taken == loop.prefix > 0}
        self.left = [place for place, loop in enumerate(loops) if self._begins(loop)]

    def _begins(self, loop: UserLoop) -> bool:
        if not loop.over or loop.parent < 0:
            return True
        return loop.parent in self.again and loop.at == self.loops[loop.parent].taken

    def refuse(self, found: OtherWay) -> NoReturn:
        """Raise what says that the training function takes another way."""
        raise refusal(self.newcomer, found)

    def refuse_end(self) -> NoReturn:
        """Raise for a training function that has ended too early."""
        loop = self.loops[self.left[-1]]
        self.refuse(ended_early(loop.number < 0, loop.taken))

    def skipped(self, rest: Iterator[Batch], loop: UserLoop) -> Batch | None:
        """The last of the batches that were taken: all are loaded again, so that the random draws of loading processes continue."""
        last = None
        if loop.taken:
            with rng.unmoved():  # this process has drawn for them already, where it has arrived
                for count in range(loop.taken):
                    last = next(rest, None)
                    if last is None:
                        self.refuse(too_short(loop.taken, count))
        return last

    def take(self, data: DataFacts) -> int | None:
        """Remove and return the place of the next loop over these data; None where none is left."""
        for place in self.left:
            if self.loops[place].data == data:
                self.left.remove(place)
                return place
        return None

    def take_again(self, data: DataFacts, override: Collection[str]) -> int:
        """Remove and return the place of the next loop, over these data. Raises an error if it was another."""
        place = self.take(data)
        if place is not None:
            return place
        known = self.pass_left()
        if data is NUMBERS or known is None:
            self.refuse(other_loop(data is NUMBERS, known is None))
        if DATA not in override:
            self.refuse(_other_data(self.loops[known].data, data))
        self.left.remove(known)
        take_over(self.loops[known], data)
        return known

    def end(self, place: int) -> None:
        """End a loop, and with it those that a `for` drew from in its iterations, as zip() does from its second argument."""
        self.ended = [each for each, loop in enumerate(self.loops) if loop.parent == place and loop.detached and not loop.asked]
        for other in self.ended:
            self.loops[other].over = True
            if other in self.left:
                self.left.remove(other)

    def just_ended(self, data: DataFacts) -> int | None:
        """The place of a loop over these data that has ended with another, where zip(strict=True) asks it whether it has; else None."""
        ended, self.ended = self.ended, []
        return next((place for place in ended if self.loops[place].data == data), None)

    def keep_open(self) -> None:
        """Expect only loops that were under way: the training function has passed the others."""
        self.left = [place for place in self.left if not self.loops[place].over]

    def pass_left(self) -> int | None:
        """The place of the next pass that is left, with any data."""
        return next((place for place in self.left if self.loops[place].number >= 0), None)


SAVED_EARLY = (
    "worker.save() was called after a batch was drawn and before the step on it, and a resumed run would leave the batch out: call it "
    "after optimizer.step(), at the end of an iteration."
)


def take_over(loop: UserLoop, data: DataFacts) -> None:
    """Continue a pass with other data, after as many samples. Raises CheckpointError where these are no whole number of batches."""
    samples = loop.taken * loop.data.batch_size
    if not loop.over and samples % data.batch_size:
        raise CheckpointError(
            f"The checkpoint was written after {samples} samples of a pass, which are no whole number of batches of {data.batch_size}: "
            "resume from one that was written between two passes, or give another batch size."
        )
    loop.taken, loop.data = samples // data.batch_size, data


def _other_data(there: DataFacts, here: DataFacts) -> OtherWay:
    equal = (there.kind, there.samples, there.batch_size) == (here.kind, here.samples, here.batch_size)
    return other_data(_described(there), "other numbers in these" if equal else _described(here))


def _described(data: DataFacts) -> str:
    samples = "" if data.samples < 0 else f" of {data.samples} samples"
    return f"{data.kind}{samples} in batches of {data.batch_size}"
