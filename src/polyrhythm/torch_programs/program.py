"""A program of torch.distributed as a job: each rank calls a function, or runs a script, in a thread of its own."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.process_group.messages.desk import Desk
from polyrhythm.torch_programs.meeting import SharedByRanks
from polyrhythm.torch_programs.ranks import Rank, being
from polyrhythm.torch_programs.steps import RankSteps
from polyrhythm.torch_programs.world import RankWorld

Main = Callable[[], Any]
_PORT = 29500


@dataclass(frozen=True, slots=True)
class ScriptProgram:
    """The Python file `path`, run as `python path *arguments` would."""

    path: Path
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([str(self.path), *self.arguments])

    def __call__(self) -> None:
        """Run it, as the module `__main__` of the rank."""
        main = types.ModuleType("__main__")
        main.__file__ = str(self.path)
        main.__dict__["__builtins__"] = __builtins__
        sys.modules["__main__"] = main
        sys.argv = [str(self.path), *self.arguments]
        sys.path.insert(0, str(self.path.resolve().parent))
        exec(compile(self.path.read_bytes(), str(self.path), "exec"), main.__dict__)


@dataclass(frozen=True, slots=True)
class FunctionProgram:
    """`function(*arguments)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return str(getattr(self.function, "__qualname__", self.function))

    def __call__(self) -> None:
        """Call it."""
        self.function(*self.arguments)


def job_of(main: Main, ranks: int, seed: int, shared: SharedByRanks, timeline: bool = False) -> Job:
    """`ranks` copies of `main`, in the environment that torchrun would give them, each on a host of its own."""

    def program(context: WorkerContext) -> Message:
        number = rank_of(context.port.name)
        os.environ.update(environment(number, ranks))
        sys.argv, sys.path = list(sys.argv), list(sys.path)
        steps, desk = RankSteps(context), Desk(context, shared.ledger)
        shared.desks[number] = desk
        rank = Rank(number, ranks, context, shared, seed, RankWorld(), steps, desk)
        with being(rank):
            try:
                main()
            except SystemExit as end:
                if end.code not in (None, 0):
                    raise
            while rank.leaving:
                rank.leaving.pop()()
        desk.ended = True
        return steps.result()

    return Job(ranks, 0, program, _nothing, lambda name: True, seed=seed, timeline=timeline, threads=True)


def environment(rank: int, ranks: int) -> dict[str, str]:
    """The variables that torchrun sets, for ranks that each have a host."""
    of_rank = {"RANK": rank, "GROUP_RANK": rank, "ROLE_RANK": rank, "LOCAL_RANK": 0}
    of_all = {"WORLD_SIZE": ranks, "GROUP_WORLD_SIZE": ranks, "ROLE_WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": 1, "OMP_NUM_THREADS": 1}
    elastic = {"TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0, "TORCHELASTIC_RUN_ID": "none"}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _PORT}
    return {name: str(value) for name, value in {**of_rank, **of_all, **elastic, **place}.items()}


async def _nothing(port: Port, record: Any) -> None:
    """No servers."""
