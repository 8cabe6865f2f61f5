"""A program's side of the changes of its crew, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import ADMITTED
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import ViewChange, ViewChanged
from polyrhythm.core.simulator.actors import VirtualActor
from polyrhythm.core.simulator.interruption import drop
from polyrhythm.core.simulator.rounds import Rounds
from polyrhythm.core.simulator.virtual_crew import VirtualCrew


class ChangingProgram(Protocol):
    """A program whose crew may change."""

    interruption: ViewChanged | None
    rounds: Rounds

    def raise_interruption(self) -> None: ...

    @property
    def actor(self) -> VirtualActor: ...

    @property
    def port(self) -> Port: ...

    @property
    def perform(self) -> Callable[[Coroutine[Any, Any, Any]], Any]: ...


@dataclass(slots=True)
class VirtualSide:
    """The side of `program` in the `crew` of its run; `rounds` are those of each view, by epoch. Implements `kernel.job.CrewSide`."""

    program: ChangingProgram
    crew: VirtualCrew
    rounds: dict[int, Rounds]

    @property
    def changes(self) -> bool:
        return True

    def cut(self, clock: int) -> int | None:
        step = self.crew.cut(self.program.actor.name, clock)  # which notes the clock
        self.program.raise_interruption()
        return step

    def change(self) -> ViewChange | None:
        crew, name, known = self.crew, self.program.actor.name, len(self.crew.changes)

        async def admitted() -> None:
            if crew.waits(name):
                crew.authority.arrive(name)
                await self.program.port.notice(ADMITTED)

        self.program.perform(admitted())
        return crew.changes[-1] if len(crew.changes) > known else None

    def finish(self) -> bool:
        crew, name = self.crew, self.program.actor.name
        if crew.authority.step:
            crew.authority.close()
            return False

        async def released() -> None:
            crew.rests(name)
            crew.authority.finish(name)
            await self.program.port.notice(ADMITTED)

        self.program.perform(released())
        return True

    def enter(self, change: ViewChange) -> None:
        epoch = change.after.epoch
        self.program.interruption = None
        self.crew.enter(self.program.actor.name)
        self.program.port.enter(epoch)
        drop(self.program.actor, epoch)
        self.program.rounds = self.rounds.setdefault(epoch, Rounds())

    def locations(self, members: Sequence[str]) -> tuple[Location, ...]:
        return self.crew.locations(members)
