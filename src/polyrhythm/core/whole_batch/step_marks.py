"""The last steps of a server's vectors, to which the coordinator returns after a change of the crew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from polyrhythm.core.trees import StateTree
from polyrhythm.core.whole_batch.vectors import ServerVectors

_KEPT = 2
"""A coordinator settles no step before all servers have settled the one before, so that they are at most one step apart."""


class CoordinatorNote(NamedTuple):
    """What the coordinator is after a step of that `loss`: its state as a text and tensors, an empty text at the beginning."""

    step: int
    loss: float
    text: str = ""
    tensors: tuple[Tensor, ...] = ()


class StepMark(NamedTuple):
    """The vectors held after a step, by number, and the weights that it settled; nobody writes into them."""

    note: CoordinatorNote
    held: dict[int, Tensor]
    settled: Tensor


class StepMarks:
    """The marks of the last steps that `vectors` have settled, from the beginning on."""

    def __init__(self, vectors: ServerVectors) -> None:
        self.vectors = vectors
        self.noted = CoordinatorNote(0, 0.0)
        self.marks: dict[int, StepMark] = {}
        self.look()

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps to which the vectors can return, the last one last."""
        return tuple(self.marks)

    def look(self) -> None:
        """Mark the step that the coordinator has noted, if it is settled now."""
        if self.noted.step == self.vectors.step and self.noted.step not in self.marks:
            self.marks[self.noted.step] = StepMark(self.noted, dict(self.vectors.held), self.vectors.settled)
            for step in self.steps[:-_KEPT]:
                del self.marks[step]

    def back(self, step: int) -> CoordinatorNote:
        """Return to the vectors after that step: what the coordinator was."""
        mark = self.marks[step]
        self.vectors.held, self.vectors.settled, self.vectors.step = dict(mark.held), mark.settled, step
        self.marks = {each: self.marks[each] for each in self.marks if each <= step}
        return mark.note

    def export(self) -> StateTree:
        """All marks."""
        return [
            [*mark.note[:3], list(mark.note.tensors), list(mark.held), list(mark.held.values()), mark.settled] for mark in self._every()
        ]

    def restore(self, state: StateTree) -> None:
        """Continue with the marks that `export` gave."""
        self.marks = {}
        for step, loss, text, tensors, names, held, settled in state:
            self.marks[step] = StepMark(CoordinatorNote(step, loss, text, tuple(tensors)), dict(zip(names, held, strict=True)), settled)

    def _every(self) -> Iterator[StepMark]:
        yield from self.marks.values()
