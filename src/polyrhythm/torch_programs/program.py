"""A program of torch.distributed as a job: each rank calls a function, or runs a script."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from polyrhythm.core import rng
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.process_state import separate
from polyrhythm.process_group.messages.desk import Desk
from polyrhythm.torch_programs.in_place_of_python import leave
from polyrhythm.torch_programs.meeting import Shared
from polyrhythm.torch_programs.printed import PrintedMetric
from polyrhythm.torch_programs.ranks import Rank, being
from polyrhythm.torch_programs.steps import RankSteps
from polyrhythm.torch_programs.world import RankWorld

_PORT = 29500


class Main(Protocol):
    """What a rank calls."""

    @property
    def folder(self) -> str:
        """The folder of its own modules, of which each rank has others; "" if they are shared."""

    def __call__(self) -> None:
        """Be the program."""

    def imported(self) -> None:
        """Import it as a process does that the program starts with "spawn", in the place of `__main__`."""


@dataclass(frozen=True, slots=True)
class ScriptProgram:
    """The Python file `path`, run as `python path *arguments` would."""

    path: Path
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([str(self.path), *self.arguments])

    @property
    def folder(self) -> str:
        """That of the script."""
        return str(self.path.resolve().parent) + os.sep

    def __call__(self) -> None:
        """Run it, as the module `__main__` of the rank."""
        self._run("__main__")

    def imported(self) -> None:
        sys.modules["__mp_main__"] = self._run("__mp_main__")

    def _run(self, name: str) -> types.ModuleType:
        main = types.ModuleType(name)
        main.__file__ = str(self.path)
        main.__dict__["__builtins__"] = __builtins__
        sys.modules["__main__"] = main
        sys.argv = [str(self.path), *self.arguments]
        sys.path.insert(0, str(self.path.resolve().parent))
        exec(
            compile(self.path.read_bytes(), str(self.path), "exec", dont_inherit=True), main.__dict__
        )  # not what this file imports from __future__
        return main


@dataclass(frozen=True, slots=True)
class FunctionProgram:
    """`function(*arguments)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return str(getattr(self.function, "__qualname__", self.function))

    @property
    def folder(self) -> str:
        """None: the function has been imported."""
        return ""

    def __call__(self) -> None:
        """Call it."""
        self.function(*self.arguments)

    def imported(self) -> None:
        """Its module is imported already."""


@dataclass(frozen=True, slots=True)
class Copies:
    """`ranks` copies of `main`; each begins with `begin`, given its number and theirs. `seed` is that of the job."""

    main: Main
    ranks: int
    begin: Callable[[int, int], None]
    seed: int = 0

    def one(self, shared: Shared, context: WorkerContext) -> Message:
        """Be the rank of `context`; `shared` is what all share."""
        number = rank_of(context.port.name)
        self.begin(number, self.ranks)
        separate()
        settings = shared.settings
        steps, desk = RankSteps(context, settings.steps), Desk(context, shared.ledger)
        shared.standings[number] = desk.standing
        rank = Rank(number, self.ranks, context, shared, self.seed, RankWorld(), steps, desk, memory=shared.memory())
        if settings.metric and number == 0:
            sys.stdout, sys.stderr = (PrintedMetric(each, settings.metric, steps.printed) for each in (sys.stdout, sys.stderr))
        with being(rank):
            try:
                with rank.memory or nullcontext(), _ending():
                    self.main()
                while rank.leaving:
                    rank.leaving.pop()()
            finally:
                leave(rank.at_exit)
                shared.leave()
        desk.standing.ended = True
        if rank.memory is not None:
            context.record(rank.memory.event(context.time(), context.port.name))
        return steps.result()

    def job(self, program: Callable[[WorkerContext], Message | None], carriers: Any, began: float, timeline: bool) -> Job:
        """Each on a host of its own, as `program`, which `carriers` carry."""
        return Job(self.ranks, 0, program, _nothing, _essential, self.seed, began=began, timeline=timeline, carriers=carriers)


@contextmanager
def _ending() -> Iterator[None]:
    """Let the program end with `sys.exit(0)`, too."""
    try:
        yield
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


def as_it_is(rank: int, ranks: int) -> None:
    """Begin as the program has left it, which starts the rank itself."""


def as_by_torchrun(seed: int, per_node: int | None, rank: int, ranks: int) -> None:
    """Begin with the variables that torchrun sets, and random generators that no other rank has, as those of a new process are."""
    os.environ.update(environment(rank, ranks, per_node))
    rng.seed_everything(seed, "rank", rank)


def environment(rank: int, ranks: int, per_node: int | None = None) -> dict[str, str]:
    """The variables that torchrun sets, for so many ranks on each node; by default all are on one."""
    local = per_node or ranks
    of_rank = {"RANK": rank, "GROUP_RANK": rank // local, "ROLE_RANK": rank, "LOCAL_RANK": rank % local}
    of_all = {"WORLD_SIZE": ranks, "GROUP_WORLD_SIZE": ranks // local, "ROLE_WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": local}
    elastic = {"TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0, "TORCHELASTIC_RUN_ID": "none"}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _PORT}
    return {name: str(value) for name, value in {**of_rank, **of_all, **elastic, **place, "OMP_NUM_THREADS": 1}.items()}


def _essential(name: str) -> bool:
    """As torchrun ends all ranks with one, so does the run."""
    return True


async def _nothing(port: Port, record: Any) -> None:
    """No servers."""
