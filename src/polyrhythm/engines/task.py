"""A task of an engine: it reports to its driver, and is a worker in each attempt at the run."""

from __future__ import annotations

import os

from polyrhythm.engines.driver_link import DriverLink
from polyrhythm.engines.messages import Beginning, Registration, ended
from polyrhythm.engines.output import echoed
from polyrhythm.engines.packing import unpacked
from polyrhythm.engines.protocol import TaskOrder
from polyrhythm.kernel.job import Work
from polyrhythm.kernel.names import worker
from polyrhythm.processes.rendezvous.join import enter
from polyrhythm.processes.rendezvous.locations import locate
from polyrhythm.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.processes.runtime import failure
from polyrhythm.processes.transport.addresses import this_host


def serve(order: TaskOrder, rank: int) -> None:
    """Be the task of `rank` until the run is over. Every attempt is made in this process; what fails in one is sent to the driver."""
    name = worker(rank)
    link = DriverLink(order, name)
    try:
        link.register(Registration(this_host(), os.environ.get("CUDA_VISIBLE_DEVICES", ""), os.getpid()))
        with echoed(link.print, order.echoes):
            work: Work | None = None
            while (beginning := link.next_attempt()) is not None:
                if work is None:
                    work = unpacked(link.packed)
                _attempt(order, rank, work.continued() if beginning.continued else work, beginning, link)
    finally:
        link.close()


def _attempt(order: TaskOrder, rank: int, work: Work, beginning: Beginning, link: DriverLink) -> None:
    """Take part in one attempt; the driver is sent how it ended."""
    name = worker(rank)
    try:
        environment = RankEnvironment(
            rank, order.workers, beginning.local_rank, beginning.host, beginning.port, agent=True, attempt=str(beginning.attempt)
        )
        job = work.job(locate(environment))
        with enter(job, link.record, environment) as joined:
            link.follow(lambda: joined.traffic)
            ending = joined.leave(job.program(joined.context))
    except BaseException as problem:
        link.send(failure.failure_message(name, problem))
        if isinstance(problem, KeyboardInterrupt):
            raise
    else:
        link.send(ended(name, ending))
