"""A program of torch.distributed as a job: each rank calls a function, or runs a script, in a thread of its own."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.torch_programs.meeting import MeetingPlace
from polyrhythm.torch_programs.ranks import Rank, being
from polyrhythm.torch_programs.world import RankWorld

Main = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Script:
    """The Python file `path`, run as `python path *arguments` would."""

    path: Path
    arguments: tuple[str, ...] = ()

    def __call__(self) -> None:
        main = types.ModuleType("__main__")
        main.__file__ = str(self.path)
        main.__builtins__ = __builtins__  # type: ignore[attr-defined]
        sys.modules["__main__"] = main
        sys.argv = [str(self.path), *self.arguments]
        sys.path.insert(0, str(self.path.resolve().parent))
        exec(compile(self.path.read_bytes(), str(self.path), "exec"), main.__dict__)


@dataclass(frozen=True, slots=True)
class Function:
    """`function(*arguments)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __call__(self) -> None:
        self.function(*self.arguments)


def job_of(main: Main, ranks: int, seed: int, hosts: Sequence[str] = ()) -> Job:
    """`ranks` copies of `main`, in the environment that torchrun would give them, on one host each."""
    meeting = MeetingPlace()

    def program(context: WorkerContext) -> None:
        number = rank_of(context.port.name)
        os.environ.update(environment(number, ranks))
        sys.argv, sys.path = list(sys.argv), list(sys.path)
        with being(Rank(number, ranks, context, meeting, RankWorld())):
            try:
                main()
            except SystemExit as end:
                if end.code not in (None, 0):
                    raise

    return Job(ranks, 0, program, _nothing, lambda name: True, seed=seed, threads=True)


def environment(rank: int, ranks: int) -> dict[str, str]:
    """The variables that torchrun sets, with each rank on its own host."""
    numbers = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": rank, "GROUP_WORLD_SIZE": ranks}
    numbers |= {"ROLE_RANK": rank, "ROLE_WORLD_SIZE": ranks, "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0}
    places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none", "OMP_NUM_THREADS": "1"}
    return {**{name: str(number) for name, number in numbers.items()}, **places}


async def _nothing(port: Port, record: Any) -> None:
    """No servers."""


__all__ = ["Function", "Script", "environment", "job_of"]
