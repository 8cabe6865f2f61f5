"""How far a worker has come in its data, and the way back there in a run that is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from polyrhythm.errors import CheckpointError
from polyrhythm.pieces.shuffle import Batch
from polyrhythm.trees import StateTree


@dataclass(slots=True)
class EpochPosition:
    """How many batches of an epoch were taken, whether its loop is over, and whether it was begun inside that of another.

    A loop is over at its end or when it was left before. `used` is whether any of the batches belonged to a step that was taken.
    """

    taken: int = 0
    over: bool = False
    inside: bool = False
    used: bool = False


def _never() -> bool:
    return False


class DataPosition:
    """The epochs that a training function has begun, by number.

    A run that is resumed calls the training function anew: epochs that were over then have no batches, and the one that was under way has
    the rest of them. `between` is called when a batch is requested, and those taken before have been used; `arrived` once, where the
    broken-off run had come to. `passed_over` says of a batch whether it belongs to a step that is not taken.
    Where a pass has such batches only, the last of them is yielded when it is over, `spare`, for loops that look at their last loss.
    """

    def __init__(self, between: Callable[[], None], arrived: Callable[[], None]) -> None:
        self.epochs: list[EpochPosition] = []
        self.before: list[EpochPosition] = []
        self.returning = False
        self._open = 0
        self._between = between
        self._arrived = arrived
        self.passed_over: Callable[[], bool] = _never
        self.spare = False

    @property
    def under_way(self) -> bool:
        """Whether an epoch is: its next request is the moment between two iterations."""
        return self._open > 0

    def follow(self, batches: Callable[[int, int], Iterator[Batch]], skip: Callable[[int, int], None]) -> Iterator[Batch]:
        """The batches of the next epoch: `batches` is given its number and how many were taken, which it yields once more, perhaps empty.

        `skip` is given the same, where it was over.
        """
        number = len(self.epochs)
        self.epochs.append(position := EpochPosition(inside=self.under_way))
        earlier = self.before[number] if number < len(self.before) else EpochPosition()
        if earlier.over:
            position.taken, position.over, position.used = earlier.taken, True, earlier.used
            self._leave_out(lambda each: each.inside)
            skip(number, earlier.taken)
            return
        rest = batches(number, earlier.taken)
        self._open += 1
        try:
            last, position.used = None, earlier.used
            for _ in range(earlier.taken):  # where they are loaded, it is so that what loading processes draw at random goes on
                last = next(rest, None)
                if last is None:
                    raise CheckpointError(
                        f"The checkpoint was written after {earlier.taken} batches of a pass over the data that now has "
                        f"{position.taken}: resume it with the data and the batch size of the run that wrote it."
                    )
                position.taken += 1
            self._leave_out(lambda each: each.inside and each.over)
            self._arrive()
            for batch in rest:
                position.taken += 1
                if self.passed_over():
                    last = batch
                else:
                    position.used = True
                    yield batch
                self._between()
            if last is not None and not position.used:
                self.spare = True
                yield last
        finally:
            self.spare = False
            position.over = True
            self._open -= 1

    def _leave_out(self, those: Callable[[EpochPosition], bool]) -> None:
        """Number on after epochs that were begun between batches which are not used again: the training function will not begin them."""
        for each in takewhile(those, self.before[len(self.epochs) :]):
            self.epochs.append(EpochPosition(each.taken, True, True, each.used))

    def _arrive(self) -> None:
        if self.returning:
            self.returning = False
            self._arrived()

    def saved(self) -> None:
        """A checkpoint was requested here in the broken-off run too: where its data were as far as they are now, it had come to this."""
        if self.epochs == self.before:
            self._arrive()

    def export(self) -> StateTree:
        """As `pieces.state.Stateful`."""
        return [(each.taken, each.over, each.inside, each.used) for each in self.epochs]

    def restore(self, state: StateTree) -> None:
        """As `pieces.state.Stateful`, before the first epoch."""
        self.before = [EpochPosition(*each) for each in state]
        self.returning = bool(self.before)
