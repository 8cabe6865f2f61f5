"""The process of one rank, from its first module to its end."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import BufferedWriter, TextIOWrapper
from multiprocessing.connection import Connection
from time import thread_time
from typing import Any, NoReturn

import torch

from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.spawn.job_spec import pickled, surroundings
from polyrhythm.core.processes.system.prctl import set_name
from polyrhythm.core.simulator.carriers import Killed
from polyrhythm.core.simulator.counting import CounterOfThread
from polyrhythm.core.simulator.counts import Count, NoCount, OperationCount
from polyrhythm.process_group.messages.calls import line_of_caller
from polyrhythm.process_group.messages.desk import Standing
from polyrhythm.torch_programs.clocks import virtual_clocks
from polyrhythm.torch_programs.in_place_of_torch import groups_of_ranks
from polyrhythm.torch_programs.memory import Memory, modules_followed
from polyrhythm.torch_programs.processes.costs import ComputedSoFar
from polyrhythm.torch_programs.processes.kernel import Kernel, RankEnd, ToldStream, portable, really_exit
from polyrhythm.torch_programs.processes.packing import pack, unpack
from polyrhythm.torch_programs.processes.remote import RemoteContext, RemoteMeeting
from polyrhythm.torch_programs.program import Copies
from polyrhythm.torch_programs.rank_settings import RankSettings
from polyrhythm.torch_programs.ranks import current, memory_here
from polyrhythm.torch_programs.steps import steps_counted


@dataclass(frozen=True, slots=True)
class RankSpec:
    """What the process of a rank begins with: the program, what all ranks have, and the states of random generators."""

    copies: Copies
    rank: int
    locations: Sequence[Location]
    memory: Callable[[], Memory | None]
    settings: RankSettings
    details: bool
    counted: bool
    placed: bool
    """Whether its operations are counted, and whether the lines where it waits matter."""


def beginning(spec: RankSpec) -> bytes:
    """What the process of a rank is sent first. Raises CompositionError for a program that cannot be sent."""
    return pack((surroundings(), pickled(spec)))


class RankProcess:
    """This process, in which a rank runs."""

    def __init__(self, spec: RankSpec, link: Connection) -> None:
        self._spec = spec
        self._kernel = kernel = Kernel(worker(spec.rank), link)
        self._uncharged: Counter[str] = Counter()
        self._counter = CounterOfThread(self._uncharged) if spec.counted else None
        self._count: Count = NoCount() if self._counter is None else OperationCount(self._counter)
        self._since = 0.0
        self._of = os.getpid()
        self._meeting = RemoteMeeting(kernel, spec.locations, spec.memory, spec.settings)
        kernel.known = self._known
        kernel.after = {"stop": self._count.stop, "take": self._count.take}
        sys.stdout, sys.stderr = (
            TextIOWrapper(BufferedWriter(ToldStream(kernel, name, number)), encoding="utf-8", errors="replace", line_buffering=True)
            for name, number in (("stdout", 1), ("stderr", 2))
        )

    def run(self) -> None:
        """Run its program, from when it is told to, and wait for the end of the run."""
        self._kernel.wait()
        torch.set_num_threads(1)
        os._exit = self._exit  # type: ignore[assignment]
        self._since = thread_time()
        spec = self._spec
        context = RemoteContext(self._kernel, self._count, spec.copies.seed, spec.details)
        try:
            with torch.autograd.set_multithreading_enabled(False), self._counter or nullcontext(), _in_virtual_time():
                result = spec.copies.one(self._meeting, context)
        except Killed:
            self._end(None)
        except BaseException as problem:
            self._end(None, problem)
        else:
            self._end(result)

    def _known(self) -> ComputedSoFar:
        takes = 0 if self._counter is None else self._counter.flops
        return ComputedSoFar(self._count.flops, takes, thread_time() - self._since, line_of_caller() if self._spec.placed else "")

    def _end(self, result: Any, problem: BaseException | None = None) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        rank = self._spec.rank
        standing = self._meeting.standings.get(rank, Standing(rank))
        error, cause = (None, b"") if problem is None else portable(self._kernel.name, problem)
        end = RankEnd(result, standing, self._meeting.asked, error, cause, dict(self._uncharged))
        self._kernel.say("ended", end, self._known())
        while True:
            self._kernel.wait()  # the coroutines of the rank may go on, until this process is ended

    def _exit(self, status: int) -> None:
        """End at once, as `os._exit` does."""
        rank = current()
        if os.getpid() != self._of or threading.current_thread() is not threading.main_thread() or rank is None:
            really_exit(status)
        elif status:
            self._end(None, SystemExit(status))
        else:
            self._end(rank.steps.result())


@contextmanager
def _in_virtual_time() -> Iterator[None]:
    with groups_of_ranks(), virtual_clocks(), steps_counted(), modules_followed(memory_here):
        yield


def main(link: Connection) -> None:
    """Be the rank that comes by the `link`, in a process that has been forked for it."""
    (environment, directory, path, arguments), given = unpack(link.recv_bytes())
    for variable in os.environb.keys() - environment.keys():
        del os.environb[variable]
    os.environb.update(environment)
    os.chdir(directory)
    sys.path[:], sys.argv[:] = map(os.fsdecode, path), map(os.fsdecode, arguments)
    spec: RankSpec = unpack(given)
    set_name(worker(spec.rank))
    RankProcess(spec, link).run()
