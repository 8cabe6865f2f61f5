"""A task of an engine: it reports to its driver, and is a worker in each attempt at the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from polyrhythm.core.kernel.job import Work
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.rendezvous.entrance import FixedEntrance
from polyrhythm.core.processes.rendezvous.join import JoinedRun, Joining, attend
from polyrhythm.core.processes.rendezvous.locations import locate
from polyrhythm.core.processes.rendezvous.places import KeptStore
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.runtime.stall_detection import Patience
from polyrhythm.launchers.driver_link import DriverLink
from polyrhythm.launchers.messages import Beginning, ended
from polyrhythm.launchers.output import echoed
from polyrhythm.launchers.packing import unpacked
from polyrhythm.launchers.protocol import TaskOrder


def serve(order: TaskOrder, rank: int) -> None:
    """Be the task of `rank` until the run is over. Every attempt is made in this process; what fails in one is sent to the driver."""
    name = worker(rank)
    link = DriverLink(order, name)
    try:
        link.register()
        with echoed(link.print, order.echoes):
            unpack = cache(lambda: unpacked(link.packed))
            while (beginning := link.next_attempt()) is not None:
                _attempt(_place(order, rank, beginning), unpack, beginning, link)
    finally:
        link.close()


def _place(order: TaskOrder, rank: int, beginning: Beginning) -> RankEnvironment:
    return RankEnvironment(rank, order.workers, KeptStore(beginning.host, beginning.port, bytes.fromhex(order.secret)))


def _attempt(place: RankEnvironment, unpack: Callable[[], tuple[Work, Patience]], beginning: Beginning, link: DriverLink) -> None:
    """Take part in one attempt; the driver is sent how it ended."""
    name = worker(place.rank)
    try:
        work, patience = unpack()
        joining = Joining(patience=patience)
        with attend(place, joining) as rendezvous:
            job = (work.continued() if beginning.continued else work).job(locate(rendezvous))
            joined = JoinedRun(job, link.record, FixedEntrance(rendezvous), joining)
        with joined:
            link.follow(lambda: joined.traffic)
            ending = joined.leave(job.program(joined.context))
    except BaseException as problem:
        link.send(failure.failure_message(name, problem))
        if isinstance(problem, KeyboardInterrupt):
            raise
    else:
        link.send(ended(name, ending))
