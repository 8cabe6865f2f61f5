"""A program that starts its own ranks with torch.multiprocessing, as torch's tutorials do: they become those of a run in virtual time.

The program itself is called once, in the thread of the simulator, and computes in no time. What it starts runs as soon as it waits: in
`join`, for a queue, in `sleep`, or when it ends.
"""

from __future__ import annotations

import io
import multiprocessing.connection as connection
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from multiprocessing import context, queues, reduction
from multiprocessing.process import BaseProcess
from typing import Any

from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.simulator.process_state import OwnModules
from polyrhythm.core.torch_private.distributed import spawned_function
from polyrhythm.errors import WorkloadError
from polyrhythm.torch_programs.program import Main
from polyrhythm.torch_programs.ranks import being, clock, current

_NOT_RANKS = ("torch.utils.data.", "multiprocessing.", "concurrent.")
"""Modules whose processes help the one that starts them."""


class Launch:
    """What the program `main` starts. `run` runs so many ranks from that second on; new processes import modules that it `owns` anew."""

    def __init__(self, run: Callable[[Main, int, float], Ending], main: Main, owns: OwnModules) -> None:
        self.main = main
        self.owns = owns
        self._run = run
        self._now = 0.0
        self._started: list[StartedRank] = []
        self.ranks = 0
        """Those of the last run."""
        self.ending = Ending()

    def time(self) -> float:
        """The virtual seconds of the runs so far."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Run what was started, and let as many pass."""
        self.finish()
        self._now += seconds

    def start(self, child: StartedRank) -> None:
        """Let it begin with the others that are started before the program waits."""
        self._started.append(child)

    def finish(self) -> None:
        """Run what was started to its end. Raises its error."""
        children, self._started = self._started, []
        if not children:
            return
        self.ranks, status = len(children), 1
        try:
            with being(None):
                ending = self._run(StartedRanks(self.main, children), len(children), self._now)
            self._now, status = ending.seconds, 0
            ending.bytes_sent += self.ending.bytes_sent
            ending.messages_sent += self.ending.messages_sent
            self.ending = ending
        finally:
            for child in children:
                child.end(status)


class StartedRank:
    """The `popen` of a process that is a rank: what its Process object asks, to start it and to wait for it."""

    method = "virtual"

    def __init__(self, launch: Launch, call: Callable[[], None]) -> None:
        self.call = call
        self.returncode: int | None = None
        self.pid = os.getpid()
        self.sentinel, self._end = os.pipe()  # readable when it has ended
        self._launch = launch
        launch.start(self)

    def poll(self, flag: int = 0) -> int | None:
        """Its exit code; None before it has ended."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """Run all that were started."""
        self._launch.finish()
        return self.returncode

    def end(self, status: int) -> None:
        """It has ended."""
        self.returncode = status
        os.close(self._end)

    def close(self) -> None:
        """Give back what it has."""
        os.close(self.sentinel)

    def terminate(self) -> None:
        """It has ended, or has not begun."""

    kill = terminate
    interrupt = terminate


@dataclass(frozen=True, slots=True)
class StartedRanks:
    """The ranks, by their number."""

    main: Main
    children: Sequence[StartedRank]

    def __str__(self) -> str:
        return f"{len(self.children)} processes that it starts"

    @property
    def folder(self) -> str:
        """That of the program."""
        return self.main.folder

    def imported(self) -> None:
        """They are imported one by one."""

    def __call__(self) -> None:
        """Be the one of the calling rank."""
        rank = current()
        assert rank is not None
        self.children[rank.rank].call()


_Made = Callable[[BaseProcess, Launch], Callable[[], None]]


class _Spawning:
    """Stands for the process to which objects are pickled: it has the file descriptors of this one."""

    def DupFd(self, fd: int) -> _KeptDescriptor:  # noqa: N802
        return _KeptDescriptor(os.dup(fd))

    def duplicate_for_child(self, fd: int) -> int:
        return os.dup(fd)


@dataclass(frozen=True, slots=True)
class _KeptDescriptor:
    fd: int

    def detach(self) -> int:
        return self.fd


def _forked(process: BaseProcess, launch: Launch) -> Callable[[], None]:
    """As a fork calls it: with the very objects of the program."""
    return copy(process).run  # it forgets its target when it has started


def _spawned(process: BaseProcess, launch: Launch) -> Callable[[], None]:
    """As a new process calls it: with copies of the arguments, and a `__main__` that is imported anew. Raises what pickling raises."""
    written = io.BytesIO()
    context.set_spawning_popen(_Spawning())  # type: ignore[arg-type]
    try:
        reduction.dump(process, written)
    finally:
        context.set_spawning_popen(None)
    return partial(_unpickled, launch, written.getvalue())


def _unpickled(launch: Launch, process: bytes) -> None:
    for name in launch.owns.found():
        del sys.modules[name]
    launch.main.imported()
    pickle.loads(process).run()


def _popen(made: _Made, theirs: Callable[[BaseProcess], Any]) -> Callable[[BaseProcess], Any]:
    def start(process: Any) -> Any:
        launch, target = clock(), process._target
        by_spawn = target is spawned_function()
        if isinstance(launch, Launch) and not str(getattr(target, "__module__", "")).startswith(_NOT_RANKS):
            if by_spawn:  # torch's wrapper hides errors from us
                function, number, arguments, _ = process._args
                process._target, process._args = function, (number, *arguments)
            return StartedRank(launch, made(process, launch))
        if current() is not None and by_spawn:
            raise WorkloadError(
                "A rank starts ranks with torch.multiprocessing: leave --workers out of polyrhythm simulate, and they become those of "
                "the run. To check a program, or to compare systems in it, let it be one rank itself, as torchrun starts it."
            )
        return theirs(process)

    return start


def _waiting(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def wait(*args: Any, **kwargs: Any) -> Any:
        launch = clock()
        if isinstance(launch, Launch):
            launch.finish()
        return theirs(*args, **kwargs)

    return wait


@contextmanager
def ranks_of_launches() -> Iterator[None]:
    """Let the processes that programs start under a `Launch` be ranks."""
    kinds: list[tuple[Any, _Made]] = [
        (context.ForkProcess, _forked),
        (context.SpawnProcess, _spawned),
        (context.ForkServerProcess, _spawned),
    ]
    waits = [(connection, "wait"), (queues.Queue, "get"), (queues.SimpleQueue, "get")]
    with ExitStack() as undo:
        for kind, made in kinds:
            undo.callback(setattr, kind, "_Popen", staticmethod(kind._Popen))
            kind._Popen = staticmethod(_popen(made, kind._Popen))
        for where, name in waits:
            theirs = getattr(where, name)
            undo.callback(setattr, where, name, theirs)
            setattr(where, name, _waiting(theirs))
        yield
