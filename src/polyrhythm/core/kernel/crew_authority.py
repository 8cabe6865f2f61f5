"""The authority over a crew that changes: who is there, who has come, who leaves, and when all go into the next view.

Each runtime has one: the simulator's scheduler, or the parent of the processes. It decides; `CrewHands` carry that out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.crew_hands import CrewHands
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.kernel.view import View, ViewChange, next_name
from polyrhythm.errors import NoProgressError, PolyrhythmError, StateLostError, TamperedError, WorkerFailed

ATTEMPTS = 3
"""So many newcomers in succession may be lost before they are admitted, or fail before their first step: all would."""


@dataclass(slots=True)
class CrewAuthority:
    """The present `view` of the workers, of which `crew` are allowed.

    `coming` have begun and wait to be admitted, `leaving` have given notice. While a cut is being agreed on, `clocks` are the steps taken
    by those who have said so, `step` the one after which the crew changes, and `arrived` those that wait there. Those `entering` the view
    have taken no step in it, and wait for all others of it. `finished` take no more steps, and the run has `ended` when that is so of
    all; a `frozen` crew does not change with notice, nor a view that is `closing`.
    """

    crew: Crew
    view: View
    hands: CrewHands
    coming: dict[str, None] = field(default_factory=dict)
    leaving: dict[str, None] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)
    step: int = 0
    arrived: dict[str, None] = field(default_factory=dict)
    entering: set[str] = field(default_factory=set)
    finished: dict[str, None] = field(default_factory=dict)
    ended: bool = False
    frozen: bool = False
    closing: bool = False
    steps: Callable[[str], int | None] = lambda name: None
    """Gives the number of steps that a worker has completed, where that is known."""
    gone: dict[str, int] = field(default_factory=dict)
    """The steps of those that were lost in this view, and, until all have entered it, in those before."""
    began: dict[str, int] = field(default_factory=dict)
    """The step after which each newcomer was admitted."""
    early: list[str] = field(default_factory=list)
    """The newcomers that were lost or dismissed before they were admitted, whose names are not used again either."""
    untried: set[str] = field(default_factory=set)
    """The newcomers that have taken no step yet."""
    _failures: int = 0
    """Counts newcomers that have failed by themselves since one has taken a step."""
    _holding: bool = False
    _enough: int = 0
    """Counts how often a newcomer has made the workers enough, or more."""

    def join(self, places: Sequence[int] = ()) -> str | None:
        """A worker is to join: it begins now, and is admitted at a cut. Its name; None where no more are allowed.

        It gets one of the `places` if one of them is free.
        """
        expected = View(0, (*self.view.members, *self.coming), (), (*self.view.left, *self.early))
        if expected.size - len(self.leaving) >= self.crew.most or expected.size >= self.crew.most or self.finished or self.frozen:
            return None
        name = next_name(expected, self.crew.most, places)
        self.coming[name] = None
        self.untried.add(name)
        self._enough += not self._too_few
        self.hands.hire(name)
        return name

    def leave(self, name: str) -> bool:
        """`name` leaves with notice, at the next cut. False if it is no worker, or the last that is there: it stays."""
        stays = any(member != name and member not in self.leaving for member in self.view.members)
        if stays and self.view.present(name):
            self.leaving[name] = None
            self._look()
        return stays and self.view.present(name)

    def interrupts(self, name: str, essential: bool) -> bool:
        """True if the loss of `name` takes the others to the next view at once.

        That of one that is `essential`, or on its way here, or the first, who has the result; of any while others are entering this view.
        """
        return essential or bool(self.entering) or not self.view.present(name) or name == self.view.first

    def lose(self, name: str, interrupts: bool) -> None:
        """`name` is lost. If this `interrupts` the others they go into the next view now; else they were notified, and go on.

        Raises WorkerFailed if too few are left, or the run is ending.
        """
        if self.ended and interrupts:
            raise WorkerFailed(name, "it was lost while the run was ending, and the others need it for the result")
        if self.coming.pop(name, self) is None:
            self.arrived.pop(name, None)
            self.early.append(name)
        elif not self.view.present(name):  # it had left, and the others may wait for what it was to hand over
            if self.entering:
                self.renew(name)
            return
        else:
            for each in (self.leaving, self.arrived, self.clocks):
                each.pop(name, None)
            steps, began = self.steps(name), self.began.pop(name, None)
            if (known := began if steps is None else steps) is not None:
                self.gone[name] = known
            if self.view.size == 1:
                self.view = self.view.without(name)
                raise self._left_with_too_few(name)
            if interrupts:
                self._change((name,), lost=True)
            else:
                self.view = self.view.without(name)
        if self.crew.replace:
            self.join()
        if not self.view.size or (self._too_few and self.crew.wait == 0):
            raise self._left_with_too_few(name)
        self._await_others(name)
        self._look()

    def fatal(self, name: str, problem: PolyrhythmError) -> PolyrhythmError | None:
        """The error that ends the run now that the program of `name` has failed with `problem`.

        None if only `name` is lost: it has joined, and has taken no step yet. After a few such in succession the next would fail too.
        """
        if name not in self.untried or isinstance(problem, TamperedError | StateLostError):
            return problem
        self._failures += 1
        if self.crew.replace and self._failures == ATTEMPTS:
            failed = f"{ATTEMPTS} workers that joined the run one after the other failed before their first step"
            return NoProgressError(f"{failed}. Remove the cause, and start the run again. The last one: {problem}")
        notify(f"{name} joined the run and failed before its first step; the others continue without it. {problem}")
        return None

    def freeze(self) -> None:
        """Let nobody join or leave with notice any more: the run is asked to stop."""
        self.frozen = True
        self._look()

    def held(self, name: str, clock: int) -> None:
        """`name` has taken so many steps, and waits before it takes the next but one."""
        if self._holding and self.view.present(name):
            self.clocks[name] = clock
            self._look()

    def arrive(self, name: str) -> None:
        """`name` has come to the cut, or is a newcomer that is ready to be admitted."""
        self.arrived[name] = None
        self._look()

    def entered(self, name: str) -> None:
        """`name` has taken a step in the present view."""
        self._enters(name)
        if name in self.untried:
            self.untried.discard(name)
            self._failures = 0

    def renew(self, lost: str) -> None:
        """Go into a view of the same members, who then wait no longer for what `lost` was handing over: it had left."""
        before = self.view
        self.view = View(before.epoch + 1, before.members, before.joined, before.left)
        self._announce(ViewChange(before, self.view, frozenset([lost])))

    def finish(self, name: str) -> None:
        """`name` takes no more steps, and waits until that is so of all: nobody is admitted any more."""
        self.finished[name] = None
        self._enters(name)
        self._look()

    def close(self) -> None:
        """Somebody takes no more steps, and comes to the cut all the same where that is agreed on, since the others wait for it there."""
        self.closing = True
        self._look()

    def _enters(self, name: str) -> None:
        """Nobody waits for `name` in the present view; when that is so of all, they know the steps of those that were lost before."""
        if name in self.entering:
            self.entering.remove(name)
            if not self.entering:
                self.gone.clear()

    @property
    def _too_few(self) -> bool:
        return self.view.size + len(self.coming) < self.crew.least

    def _await_others(self, name: str) -> None:
        """If `name` leaves too few behind, end the run unless others join in time."""
        if self._too_few:
            enough = self._enough
            self.hands.after(self.crew.wait, lambda: self._expire(name, enough))

    def _expire(self, name: str, enough: int) -> None:
        """The time is over in which others may have joined since `name` was gone: nothing is to do where they have."""
        if self._too_few and self._enough == enough and not self.finished:
            self.hands.fail(self._left_with_too_few(name))

    def _left_with_too_few(self, name: str) -> WorkerFailed:
        waited = f", and nobody has joined within {self.crew.wait:g} seconds" if self.crew.wait and self.view.size else ""
        return WorkerFailed(name, f"it is gone, {self.view.size} workers are left, where at least {self.crew.least} are needed{waited}")

    @property
    def ready(self) -> list[str]:
        """The newcomers that can be admitted."""
        return [name for name in self.coming if name in self.arrived]

    @property
    def _leavers(self) -> tuple[str, ...]:
        """Those who can leave at the next cut: somebody stays, who has the state of the run."""
        going = tuple(self.leaving)
        return going[: self.view.size - 1]

    def _look(self) -> None:
        """Do what is due now."""
        members = self.view.members
        if self.step:
            self._look_further()
        elif self.finished or self.frozen or self.closing:
            self._give_up()
            if self.finished and not self.ended and all(name in self.finished for name in members):
                self.ended = True
                self.hands.end(members)
        elif self.ready or self._leavers or self._holding:
            if not self._holding:
                self._holding = True
                self.hands.hold(members)
            self._look_further()

    def _look_further(self) -> None:
        members = self.view.members
        if not self._holding:
            return
        if not self.step and all(name in self.clocks for name in members):
            self.step = max(self.clocks[name] for name in members) + 1
            self.hands.settle(members, self.step)
        if self.step and all(name in self.arrived for name in members):
            if self.frozen or self.closing:
                self._give_up()
            else:
                self._change(self._leavers, lost=False)

    def _give_up(self) -> None:
        """Somebody takes no more steps: nobody leaves with notice or joins any more."""
        coming, held = [*self.coming], [name for name in self.view.members if self._holding and name not in self.finished]
        self.coming.clear()
        self.early += coming
        self._begin_anew()
        for name in coming:
            self.hands.dismiss(name)
        if held:
            self.hands.release(held)

    def _change(self, leaving: Sequence[str], lost: bool) -> None:
        """Go into the next view. After a loss newcomers are not admitted: the way to a place inside a step is not known."""
        before, joined = self.view, () if lost else tuple(self.ready)
        after = before.without(*leaving)
        self.view = View(before.epoch + 1, (*after.members, *joined), (*after.joined, *joined), after.left)
        for name in joined:
            del self.coming[name]
            self.began[name] = self.step
        for name in leaving:
            self.leaving.pop(name, None)
        self._begin_anew()
        self.finished.clear()
        self.closing = False
        self._announce(ViewChange(before, self.view, frozenset(leaving if lost else ()), tuple(self.gone.items())))
        for name in () if lost else leaving:
            self._await_others(name)
        if not lost:
            self._look()

    def _announce(self, change: ViewChange) -> None:
        self.entering = set(change.after.members)
        self.hands.change(change)

    def _begin_anew(self) -> None:
        self.clocks, self.step, self._holding = {}, 0, False
        self.arrived = {name: None for name in self.arrived if name in self.coming}
