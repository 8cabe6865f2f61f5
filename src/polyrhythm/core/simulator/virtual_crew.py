"""The crew of a run in virtual time that may change: what the authority decides happens at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.crew_authority import CrewAuthority
from polyrhythm.core.kernel.events import CrewChanged
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import ADMITTED, VIEW, Delivery, Message
from polyrhythm.core.kernel.names import is_worker, rank_of
from polyrhythm.core.kernel.view import NextView, View, ViewChange
from polyrhythm.core.simulator.actors import VirtualActor
from polyrhythm.core.simulator.failure import failure
from polyrhythm.core.simulator.scheduler import Scheduler
from polyrhythm.errors import WorkerFailed, sentence


class VirtualCrew:
    """Carries out what `authority` decides. `hire` makes the actor of a newcomer, on one of the `places`; `change` is the last one."""

    def __init__(self, scheduler: Scheduler, crew: Crew, view: View, hire: Callable[[str], None], places: tuple[Location, ...]) -> None:
        self.scheduler = scheduler
        self.authority = CrewAuthority(crew, view, self)
        self.hire = hire
        self.places = places
        self.lose: Callable[[VirtualActor, str], None] = lambda actor, why: None
        """Called with a newcomer that is lost because its program has raised, and why."""
        self.changes: list[ViewChange] = []
        self._clocks = dict.fromkeys(view.members, 0)
        self._waiting: set[str] = set()
        self._here: set[str] = set()
        """Those whose programs have gone into the present view; others were computing when it came."""
        self.authority.steps = self._clocks.get

    def locations(self, members: Sequence[str]) -> tuple[Location, ...]:
        """The places of these workers: each has that of its number, and one that replaces another the other's."""
        return tuple(self.places[rank_of(name) % len(self.places)] for name in members)

    def interrupts(self, name: str, essential: bool) -> bool:
        """True if the run cannot go on in this view without the actor."""
        return self.authority.interrupts(name, essential) if is_worker(name) else essential

    def join(self, site: str | None = None) -> None:
        """A worker is to join: at `site`, where one is given and has a free place."""
        self.authority.join([place for place, at in enumerate(self.places) if site is None or at.site == site])

    def failed(self, actor: VirtualActor, problem: BaseException) -> None:
        """The program of `actor` has raised: it ends the run, or is lost."""
        error = failure(actor.name, problem)
        if (fatal := self.authority.fatal(actor.name, error)) is not None:
            raise fatal
        self.lose(actor, f"failed before its first step: {sentence(error)}")

    def cut(self, name: str, clock: int) -> int | None:
        """The step after which the crew changes, asked by `name` after `clock` steps; None while it does not."""
        self._clocks[name] = clock
        if name in self._here:
            self.authority.entered(name)
        return self.authority.step or None

    def waits(self, name: str) -> bool:
        """True if `name`, which has come to a cut or is a newcomer, is to wait for a notice: not if the cut was given up meanwhile."""
        if self.authority.view.present(name) and not self.authority.step:
            return False
        self._waiting.add(name)
        return True

    def rests(self, name: str) -> None:
        """`name` has taken its last step, and waits for a notice."""
        self._waiting.add(name)

    def enter(self, name: str) -> None:
        """`name`, which may have been computing when the view changed, goes into the present one."""
        self._waiting.discard(name)
        self._here.add(name)

    def dismiss(self, name: str) -> None:
        self.scheduler.dismiss(self.scheduler.actors[name])

    def hold(self, names: Sequence[str]) -> None:
        """Programs ask after each step: how many each has taken is known."""
        for name in names:
            self.authority.clocks[name] = self._clocks.get(name, 0)

    def settle(self, names: Sequence[str], step: int) -> None:
        """Nothing to do: programs ask after each step."""

    def release(self, names: Sequence[str]) -> None:
        for name in names:
            self._notify(name)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        queue = self.scheduler.queue
        queue.at(queue.now + seconds, (lambda *_: call(), None, None))

    def fail(self, problem: WorkerFailed) -> None:
        raise problem

    def end(self, names: Sequence[str]) -> None:
        self.release(names)

    def change(self, change: ViewChange) -> None:
        self.changes.append(change)
        self._here.clear()
        now, view = self.scheduler.queue.now, change.after
        self.scheduler.record(CrewChanged(now, view.first, view.epoch, view.members, change.joined, change.left))
        if change.lost:
            for name in view.members:
                self.scheduler.interrupt(self.scheduler.actors[name], change)
        else:
            for name in (*view.members, *change.left):
                self._notify(name)
        places = tuple((at.site, at.host) for at in self.locations(view.members))
        notice = Message(VIEW, text=msgspec.json.encode(NextView(change, places)).decode())
        for server in [actor for actor in self.scheduler.actors.values() if not is_worker(actor.name)]:
            self.scheduler.mailroom.deliver(server, Delivery(server.name, notice))

    def _notify(self, name: str) -> None:
        """Give a notice to `name`, if it waits for one."""
        if name not in self._waiting:
            return
        self._waiting.remove(name)
        self.scheduler.mailroom.deliver(self.scheduler.actors[name], Delivery(name, Message(ADMITTED)))
