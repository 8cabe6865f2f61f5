"""The runs in virtual time that one program makes: one, or one for each set of ranks that it starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.simulator.charging import Uncharged
from polyrhythm.core.simulator.failure import failure
from polyrhythm.core.simulator.process_state import OwnModules, ProcessState, separate
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.simulator.threads import Threads
from polyrhythm.errors import DeadlockError, NoRankError, PolyrhythmError
from polyrhythm.hardware.segments import SegmentTimes
from polyrhythm.process_group.messages.calls import line_of_caller
from polyrhythm.process_group.messages.desk import explained
from polyrhythm.torch_programs.launch import Launch
from polyrhythm.torch_programs.meeting import SharedByRanks
from polyrhythm.torch_programs.memory import Memory
from polyrhythm.torch_programs.processes.carrier import processes
from polyrhythm.torch_programs.processes.rank_process import RankSpec, beginning
from polyrhythm.torch_programs.program import Copies, Main, as_it_is
from polyrhythm.torch_programs.rank_settings import RankSettings
from polyrhythm.torch_programs.ranks import being

_NO_RANK = "The program has started no rank: give --workers N, the number of ranks, as `torchrun --nproc-per-node N` does"


Memories = Callable[[], Memory | None]


class VirtualRuns:
    """Those on one simulator; to the file `measure` goes what programs have computed, `memory` makes what counts their memory."""

    def __init__(
        self,
        on: Simulator,
        record: Recorder,
        timeline: bool,
        owns: OwnModules,
        measure: Path | None,
        memory: Memories,
        settings: RankSettings,
    ) -> None:
        self._on = on
        self._settings = settings
        self.asked = False
        """True if a rank has joined as a worker that names no strategy."""
        self._record = record
        self._timeline = timeline
        self.owns = owns
        self._measure = measure
        self._memory = memory
        self._found = None if measure is None else SegmentTimes()
        self._uncharged = Uncharged()

    def run(self, copies: Copies, began: float = 0.0) -> Ending:
        """Run them to their end, from the second `began` on."""
        shared = SharedByRanks(self._on.locations(copies.ranks), self._memory, self._settings)
        try:
            return _CARRIED[self._on.carrier](self, copies, shared, began)
        except DeadlockError as problem:
            when, found, what = str(problem).partition("Deadlock at")
            if when or not found:
                raise
            when, _, what = what.partition(": ")
            raise DeadlockError(f"Deadlock at{when}: {explained(shared.standings) or what}.") from None
        finally:
            self.asked |= shared.asked

    def in_threads(self, copies: Copies, shared: SharedByRanks, began: float) -> Ending:
        """Run them in threads."""
        carriers = Threads(line_of_caller, self._uncharged, self.owns, self._found)
        return self._on.execute(copies.job(partial(copies.one, shared), carriers, began, self._timeline), self._record)

    def in_processes(self, copies: Copies, shared: SharedByRanks, began: float) -> Ending:
        """Run them in processes. Raises CompositionError for a program that cannot be sent there."""

        def given(rank: int, counted: bool, placed: bool) -> bytes:
            settings = self._settings
            return beginning(RankSpec(copies, rank, shared.locations, self._memory, settings, self._timeline, counted, placed))

        with processes(given, self._uncharged, self._found) as carriers:
            return self._on.execute(copies.job(partial(carriers.one, shared), carriers, began, self._timeline), self._record)

    def conclude(self) -> list[str]:
        """Write what was measured; returns sentences on what could not be charged."""
        if self._measure is not None and self._found is not None:
            self._found.write(self._measure)
            return []
        return self._uncharged.remarks()


_CARRIED: dict[str, Callable[[VirtualRuns, Copies, SharedByRanks, float], Ending]] = {
    "threads": VirtualRuns.in_threads,
    "processes": VirtualRuns.in_processes,
}


def launched(main: Main, runs: VirtualRuns, seed: int) -> Ending:
    """Call `main` once, and run what it starts."""
    launch = Launch(lambda children, ranks, began: runs.run(Copies(children, ranks, as_it_is, seed), began), main, runs.owns)
    before = ProcessState(runs.owns)
    try:
        with being(None, launch):
            separate()
            main()
            launch.finish()
    except (Exception, SystemExit) as problem:
        if isinstance(problem, SystemExit) and problem.code in (None, 0):
            launch.finish()
        elif isinstance(problem, PolyrhythmError):
            raise
        elif "env://" in str(problem):
            raise NoRankError(f"{_NO_RANK}. ({problem})") from None
        else:
            raise failure("the program", problem) from None
    finally:
        now = ProcessState(runs.owns)
        before.load(now)
    if not launch.ranks:
        raise NoRankError(f"{_NO_RANK}.")
    return launch.ending
