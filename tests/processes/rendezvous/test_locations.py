"""Where joined workers are, as all of them learn before the run is planned."""

import os

import msgspec
import pytest
from ports import reserved_port

from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.processes import Processes
from polyrhythm.core.processes.rendezvous.join import Joining, attend
from polyrhythm.core.processes.rendezvous.locations import HOST, SITE, locate
from polyrhythm.core.processes.rendezvous.places import RankZero
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.errors import RunError


async def no_service(port: object, record: object) -> None:
    """There are no servers."""


def located(workers: int, missing: int = 0) -> list[tuple[Location, ...]]:
    """What each of `workers` learns; the last `missing` do not come."""
    with reserved_port() as port:

        def program(context: WorkerContext) -> Message:
            rank = rank_of(context.port.name)
            os.environ[SITE], os.environ[HOST] = "ab"[rank // 2], f"host {rank}"
            if rank >= workers - missing:
                return Message("none")
            place = RankEnvironment(rank, workers, RankZero(port=port))
            with attend(place, Joining(startup=2.0 if missing else 60.0)) as rendezvous:
                found = locate(rendezvous)
                rendezvous.close()
            return Message("found", text=msgspec.json.encode([(each.site, each.host) for each in found]).decode())

        ending = Processes(cuda=False).execute(Job(workers, 0, program, no_service, lambda name: True), lambda event: None)
    texts = [result.text for result in ending.results.values() if result is not None]
    return [tuple(Location(site, host) for site, host in msgspec.json.decode(text)) for text in texts]


def test_all_learn_the_same_sites_and_hosts() -> None:
    expected = tuple(Location("ab"[rank // 2], f"host {rank}") for rank in range(4))
    assert located(4) == [expected] * 4


def test_one_worker_waits_for_no_other() -> None:
    assert located(1) == [(Location("a", "host 0"),)]


def test_who_does_not_come_is_named() -> None:
    with pytest.raises(RunError, match="worker/1 has not joined at"):
        located(2, missing=1)
