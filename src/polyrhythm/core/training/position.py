"""The position of a worker in its data, and the way back to it in a resumed run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from polyrhythm.core import rng
from polyrhythm.core.protocols.deals import Deals, PassDeals
from polyrhythm.core.protocols.shuffle import Batch
from polyrhythm.core.training import loops
from polyrhythm.core.training.callers import iterated_by_for
from polyrhythm.core.training.data.draws import ShareDraws
from polyrhythm.core.training.leader import Leader
from polyrhythm.core.training.loops import NUMBERS, REQUEST, SAVE, STEP, DataFacts, UserLoop, WayBack
from polyrhythm.core.training.other_way import OUT_OF_ORDER, STEP_TWICE
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import WorkloadError

Skip = Callable[[int, int], None]
"""Called with the number of a pass that is over, and the number of batches that were taken from it."""


class DataPosition:
    """The loops that a training function has started: passes through data, and loops over numbers (`worker.epochs`, `worker.range`).

    A run that is resumed calls the training function anew: loops that were over then are empty, and those that were under way hand out
    the rest. `between` is called where a checkpoint can be written: when the next item is requested, those before it have been used, and
    what precedes the loop can be repeated. `arrived` is called once, where the broken-off run had come to; `watch` at each request and each
    step outside of loops. `joined` is set when a pass continues in its middle. `passed_over` is true for a batch whose step is skipped.
    If all batches of a pass are skipped, the last is yielded at its end, marked by `spare`, for loops that look at their last loss.
    `sources` are iterators of the user's from which batches are drawn: reading again puts them where they were. `repeated` is called where
    a further pass through the same data begins that no loop over numbers counts. `deals` says which samples of a pass are this worker's,
    `draws` what samplers and shards have given; `weight` is that of the last batch in a mean over workers.
    """

    def __init__(self, between: Callable[[], None], arrived: Callable[[str], None]) -> None:
        self.loops: list[UserLoop] = []
        self.deals = Deals()
        self.draws: list[ShareDraws] = []
        self.weight = 1.0
        self.sources: list[object] = []
        self.returning = self.spare = self.joined = False
        self.passed_over: Callable[[], bool] = lambda: False
        self.watch: Callable[[str], None] = lambda kind: None
        self.begins: Callable[[], None] = lambda: None
        self.repeated: Callable[[], None] = lambda: None
        self._passes = 0
        self._way = WayBack(())
        self._unskipped: list[UserLoop] = []
        self._open: list[int] = []
        self._leader = Leader()
        self._number = 0
        self._override: Collection[str] = ()
        self._asking: int | None = None
        self._stepped = self._outside = self._stepping = False
        self._between, self._arrived = between, arrived

    @property
    def under_way(self) -> bool:
        """True if a loop is under way: its next request is the moment between two iterations."""
        return bool(self._open)

    @property
    def path(self) -> tuple[tuple[int, int], ...]:
        """The loops under way around this place, and the items that each has handed out; without the one whose next is requested."""
        return tuple((place, self.loops[place].taken) for place in self._open if place != self._asking)

    def follow(self, data: DataFacts, batches: Callable[[PassDeals, int], Iterator[Batch]], skip: Skip) -> Iterator[Batch]:
        """The batches of the next pass. `batches` gets its deals and the count of those taken, which it yields once more, perhaps empty.

        `skip` is called for each earlier pass through the same data that is not made again.
        """
        place = self._begin(data)
        loop, ended = self.loops[place], self.loops[place].over
        self._catch_up(loop, skip)
        if ended and place not in self._way.before:
            self._way.end(place)
            self._replayed()
            return
        with self._opened(place):
            anew = place in self._way.before and self.returning
            deals = self.deals.of(loop.number)
            rest = batches(deals, 0 if anew else loop.taken)
            if anew:
                yield from self._anew(rest, loop)
            last = None if anew else self._way.skipped(rest, loop)
            if ended:
                return
            if last is not None and place in self._way.again and self.returning:
                self._number = loop.taken - 1
                yield 0, last[1]  # its samples are counted already
                self._request(place)
            self._go_on(place)
            self.joined = loop.taken > 0
            for batch in rest:
                self.weight = deals.weight
                self._hand_out(place)
                if self.passed_over():
                    last, loop.fresh, self._stepped = batch, 0, True
                else:
                    loop.used = True
                    yield batch
                self._request(place)
            if last is not None and not loop.used:
                self.spare = True
                yield last

    def count(self, numbers: range) -> Iterator[int]:
        """The numbers of the next loop over numbers that were not handed out yet."""
        place = self._begin(NUMBERS)
        loop = self.loops[place]
        if loop.over:
            return self._replayed()
        with self._opened(place):
            if place in self._way.again and self.returning:
                yield numbers[loop.taken - 1]
                self._request(place)
            self._go_on(place)
            while loop.taken < len(numbers):
                self._hand_out(place)
                yield numbers[loop.taken - 1]
                self._request(place)

    def _begin(self, data: DataFacts) -> int:
        """The place of the loop that starts: one that the broken-off run had started too, or a new one."""
        self.begins()
        if (ended := self._way.just_ended(data)) is not None:
            return ended
        if self.returning and self._way.left:
            return self._way.take_again(data, self._override)
        if self._way.left and (place := self._way.take(data)) is not None:
            return place
        self._arrive(REQUEST)
        place, parent = len(self.loops), self._innermost()
        at = self.loops[parent].taken if parent >= 0 else 0
        if parent < 0 and loops.made_before(self.loops, data):
            self.repeated()
        self.loops.append(UserLoop(-1 if data is NUMBERS else self._passes, data, parent, at))
        self._passes += data is not NUMBERS
        self._request(place)
        return place

    def _catch_up(self, loop: UserLoop, skip: Skip) -> None:
        """Bring the data to their state after the passes that are not made again, this one too if it was over."""
        mine = [each for each in self._unskipped if each.data == loop.data and each.number <= loop.number]
        if mine:
            self._unskipped = [each for each in self._unskipped if each not in mine]
            with rng.unmoved():
                for each in mine:
                    skip(each.number, each.taken)

    def _anew(self, rest: Iterator[Batch], loop: UserLoop) -> Iterator[Batch]:
        """The batches that the pass had handed out before the first step, once more; their samples are counted already."""
        for self._number in range(loop.taken):
            yield 0, next(rest)[1]

    @contextmanager
    def _opened(self, place: int) -> Iterator[None]:
        self._open.append(place)
        self._outside = False
        self.loops[place].asked = self.loops[place].detached = not iterated_by_for()
        try:
            yield
        finally:
            self.spare = False
            self.loops[place].over = True
            self.deals.end(self.loops[place].number)
            self._open.remove(place)
            if not self.returning:
                self._way.end(place)

    def number(self) -> int:
        """The number, from 0, of the batch that was handed out last, in its pass."""
        return self._number

    def _innermost(self) -> int:
        """The place of the loop in whose iteration the training function is; -1 for none."""
        return next((place for place in reversed(self._open) if not self.loops[place].detached), -1)

    def _hand_out(self, place: int) -> None:
        loop = self.loops[place]
        loop.taken += 1
        loop.stepped = False
        self._number = loop.taken - 1
        if not self._stepped and len(self._open) == 1:
            loop.prefix += 1
        for other in self._open[self._open.index(place) + 1 :]:
            self.loops[other].detached = True  # it continues through several iterations of this one
        if loop.number >= 0:
            self._leader.drew(loop)

    def _request(self, place: int) -> None:
        """The next item of a loop is requested: a moment for a checkpoint, if what was drawn is used and no step would be repeated."""
        self.watch(REQUEST)
        if self.returning or any(self.loops[each].stepped for each in loops.current(self.loops, place)):
            return
        if not self._leader.begins(self.loops[place], map(self.loops.__getitem__, self._open)):
            return
        self._asking = place
        try:
            self._between()
        finally:
            self._asking = None

    def refuse_steps_before_arrival(self) -> None:
        """Raise an error where the training function takes a step before it has come to where it continues."""
        if self.returning:
            self._way.refuse(STEP_TWICE)

    def refuse_end_before_arrival(self) -> None:
        """Raise an error where the training function ends before it has come to where it continues."""
        if self.returning and self._way.left:
            self._way.refuse_end()

    def stepped(self) -> None:
        """Note that a step was taken."""
        self._stepped = True
        self._leader.stepped(map(self.loops.__getitem__, self._open))
        for each in self.draws:
            each.stepped()
        if self._open:
            if (innermost := self._innermost()) >= 0:
                self.loops[innermost].stepped = True
        else:
            self._outside = True
            self.begins()
            self.watch(STEP)
            self._stepping = True
            try:
                self._between()
            finally:
                self._stepping = False

    def _arrive(self, kind: str) -> None:
        if self.returning:
            self.returning = False
            self._way.keep_open()
            self._arrived(kind)

    def _go_on(self, place: int) -> None:
        """Continue a loop that was under way. Raises an error unless the one in which the checkpoint was written is the first."""
        if self.returning and place != self._way.asking and self._way.asking in self._way.left:
            self._way.refuse(OUT_OF_ORDER)
        self._arrive(REQUEST)

    def _replayed(self) -> None:
        """A loop was over, and is not made again; if it was the last, the broken-off run had continued with steps outside of loops."""
        if self._outside and not self._way.left:
            self._arrive(STEP)

    def refuse_saving_early(self) -> None:
        """Raise WorkloadError where a batch was drawn whose step was not taken: a resumed run would not take it either."""
        if self._leader.waits:
            raise WorkloadError(loops.SAVED_EARLY)

    def saved(self) -> None:
        """A checkpoint was requested here before the run broke off too; if its data were as far as now, the run has arrived."""
        if not self._way.left:
            self._arrive(SAVE)

    @property
    def kind(self) -> str:
        """The place of the training function while a checkpoint is written: REQUEST, STEP or SAVE."""
        return REQUEST if self._asking is not None else STEP if self._stepping else SAVE

    def export(self) -> StateTree:
        again: Sequence[int] = ()
        if self._asking is not None:
            again = loops.current(self.loops, self._asking)
        elif (innermost := self._innermost()) >= 0:  # worker.save() is called at the end of an iteration
            inside = [innermost, *loops.current(self.loops, innermost)]
            again = [place for place in inside if not self.loops[place].stepped]
        dealt = {"deals": self.deals.export()} if self.deals.changes else {}
        return {**loops.export(self.loops), "again": list(again), "asking": self._asking, "outside": self._outside, **dealt}

    def export_request(self) -> StateTree:
        """The position where the batches that are held were requested: that of a worker that joins, and requests its own there.

        Without any, in an iteration over numbers whose step is not taken yet, that where its number was requested.
        """
        held = [place for place in self._open if self.loops[place].fresh]
        if not held and self._asking is None and (innermost := self._innermost()) >= 0 and not self.loops[innermost].stepped:
            held = [innermost]
        before = [replace(loop, taken=loop.taken - (loop.fresh or 1)) if place in held else loop for place, loop in enumerate(self.loops)]
        asked = {"again": loops.current(before, held[0]), "asking": held[0], "outside": False} if held else {}
        return {**self.export(), **loops.export(before), **asked}

    def restore(self, state: StateTree, override: Collection[str], newcomer: str = "") -> None:
        """Take over a position before the first loop: other data if `override` names them, at a `newcomer` that of one that was there."""
        self.loops, self._override = loops.restored(state), override
        self.deals.restore(state.get("deals"))
        self._way = WayBack(self.loops, state["again"], -1 if state["asking"] is None else state["asking"], newcomer)
        self._stepped = True
        self._passes = sum(loop.number >= 0 for loop in self.loops)
        passes = [loop for place, loop in enumerate(self.loops) if loop.number >= 0 and place not in self._way.before]
        self._unskipped = [loop for loop in passes if loop.over]
        self._outside = state["outside"]
        self.returning = bool(self._way.left)
