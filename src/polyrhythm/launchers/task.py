"""A task of an engine: it reports to its driver, and is a worker in each attempt at the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from polyrhythm.core.kernel.job import Job, Work
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.rendezvous.crew_entrance import enter_crew
from polyrhythm.core.processes.rendezvous.entrance import FixedEntrance
from polyrhythm.core.processes.rendezvous.join import JoinedRun, Joining, attend
from polyrhythm.core.processes.rendezvous.locations import locate
from polyrhythm.core.processes.rendezvous.places import KeptStore
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.runtime.stall_detection import Patience
from polyrhythm.core.processes.transport.wire import VERSION
from polyrhythm.launchers.driver_link import DriverLink
from polyrhythm.launchers.driver_place import DriverPlace
from polyrhythm.launchers.messages import Beginning, ended
from polyrhythm.launchers.output import echoed
from polyrhythm.launchers.packing import unpacked
from polyrhythm.launchers.protocol import TaskOrder

_FACTS = {"version of the wire format": str(VERSION)}
"""What must be the same on all hosts; the work itself is the driver's."""


def serve(order: TaskOrder, rank: int) -> None:
    """Be the task of `rank` until the run is over. Every attempt is made in this process; what fails in one is sent to the driver."""
    link = DriverLink(order, worker(rank))
    try:
        link.register()
        with echoed(link.print, order.echoes):
            unpack = cache(lambda: unpacked(link.packed))
            part = (_CrewPart if order.changes else _FixedPart)(order, rank, link)
            while (beginning := link.next_attempt()) is not None:
                _attempt(part, unpack, beginning, link)
    finally:
        link.close()


def _attempt(part: _FixedPart | _CrewPart, unpack: Callable[[], tuple[Work, Patience]], beginning: Beginning, link: DriverLink) -> None:
    """Take part in one attempt; the driver is sent how it ended."""
    try:
        work, patience = unpack()
        joined, job = part.join(work.continued() if beginning.continued else work, Joining(patience=patience), beginning)
        with joined:
            link.follow(lambda: joined.traffic)
            ending = joined.leave(job.program(joined.context))
    except BaseException as problem:
        link.send(failure.failure_message(part.name, problem))
        if isinstance(problem, KeyboardInterrupt):
            raise
    else:
        link.send(ended(part.name, ending))


class _FixedPart:
    """The part of the task of `rank` among one number of workers."""

    def __init__(self, order: TaskOrder, rank: int, link: DriverLink) -> None:
        self.name = worker(rank)
        self._order, self._rank, self._link = order, rank, link

    def join(self, work: Work, joining: Joining, beginning: Beginning) -> tuple[JoinedRun, Job]:
        """Meet the others at the driver's store."""
        order = self._order
        place = RankEnvironment(self._rank, order.workers, KeptStore(beginning.host, beginning.port, bytes.fromhex(order.secret)))
        with attend(place, joining) as rendezvous:
            job = work.job(locate(rendezvous))
            return JoinedRun(job, self._link.record, FixedEntrance(rendezvous), joining), job


class _CrewPart:
    """The part of the task of `rank` in a crew that changes, where its worker has another name in each attempt."""

    def __init__(self, order: TaskOrder, rank: int, link: DriverLink) -> None:
        self.name = worker(rank)
        self._order, self._rank, self._link = order, rank, link

    def join(self, work: Work, joining: Joining, beginning: Beginning) -> tuple[JoinedRun, Job]:
        """Begin the run with others, or join them, as the driver says."""
        self.name = worker(self._rank)
        place = DriverPlace(self._order, self._link, beginning.founders > 0)
        entrance = enter_crew(place, beginning.founders, _FACTS, joining.startup)
        try:
            self.name = entrance.name
            self._link.send(Message("entered", text=self.name))
            job = (work.joined() if entrance.newcomer else work).job(entrance.founders)
            job = replace(job, began=entrance.answer.seconds) if entrance.newcomer else job
            return JoinedRun(job, self._link.record, entrance, joining), job
        except BaseException:
            entrance.close()
            raise
