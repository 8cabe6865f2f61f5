"""The ranks of PyTorch's own test cases: forked processes, or ranks in virtual time.

PyTorch has three classes whose tests are run by several ranks: processes, processes that are kept for the next test, and threads. `put`
has all three run by the `Ranks` that it is given. What one rank does is unchanged, so the outcomes of two kinds can be compared.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
import unittest
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from polyrhythm.torch_programs.simulate import simulate  # before ranks are forked, as that takes seconds

Outcome = tuple[str, str]
"""What became of a test or of a rank: "passes", "skips" or "fails", and why."""
Call = Callable[[int], Any]
"""What the rank of that number does."""

GRACE = 5.0
"""Seconds that ranks have to end after another has failed."""
DEVICES = 4
"""What torch says of its GPUs: many tests skip themselves where there are fewer than ranks, and do not need them."""


class Ranks(Protocol):
    """How ranks are run."""

    def outcomes(self, call: Call, count: int) -> list[Outcome]:
        """What becomes of so many."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Each is forked, which takes a tenth of the time that starting it afresh does, and is ended after so many seconds."""

    seconds: float

    def outcomes(self, call: Call, count: int) -> list[Outcome]:
        """Those of the ranks, by their number."""
        return in_children([functools.partial(_alone, call, rank) for rank in range(count)], self.seconds)


@dataclass(frozen=True, slots=True)
class VirtualTime:
    """All are in one simulation, in a process that is ended after so many seconds."""

    seconds: float

    def outcomes(self, call: Call, count: int) -> list[Outcome]:
        """One for all: torchrun, too, ends all ranks with one."""
        return in_children([functools.partial(_simulated, call, count)], self.seconds)


def _alone(call: Call, rank: int) -> Outcome:
    from torch.testing._internal.common_distributed import TEST_SKIPS

    try:
        call(rank)
    except unittest.SkipTest as skip:
        return "skips", str(skip)
    except SystemExit as end:
        if end.code in (None, 0):
            return "passes", ""
        known = [skip.message for skip in TEST_SKIPS.values() if skip.exit_code == end.code]
        return ("skips", known[0]) if known else ("fails", f"exits with {end.code}")
    except Exception:
        return "fails", traceback.format_exc()
    return "passes", ""


def _simulated(call: Call, count: int) -> Outcome:
    found: list[Outcome] = []

    def rank() -> None:
        found.append(_alone(call, int(os.environ["RANK"])))
        if found[-1][0] == "fails":
            raise RuntimeError("The test failed.")

    try:
        simulate(rank, ranks=count)
    except Exception as problem:
        return worst(found, ("fails", f"{type(problem).__name__}: {problem}"))
    return worst(found, found[0])


def worst(outcomes: Sequence[Outcome], otherwise: Outcome) -> Outcome:
    """That of a test whose ranks had these outcomes: the first failure, or the first skip."""
    for kind in ("fails", "skips"):
        for outcome in outcomes:
            if outcome[0] == kind:
                return outcome
    return otherwise


def in_children(calls: Sequence[Callable[[], Outcome]], seconds: float) -> list[Outcome]:
    """The outcomes of the calls, each in a forked process of its own."""
    fork = multiprocessing.get_context("fork")
    pipes, children = [], []
    for call in calls:
        ours, theirs = fork.Pipe(duplex=False)
        child = fork.Process(target=_send, args=(theirs, call))
        child.start()
        theirs.close()
        pipes.append(ours)
        children.append(child)
    try:
        found = _received(pipes, time.monotonic() + seconds)
    finally:
        for child in children:
            _end(child)
    return [found.get(pipe, ("fails", f"did not end in {seconds:.0f} seconds")) for pipe in pipes]


def _send(pipe: Connection, call: Callable[[], Outcome]) -> None:
    os.setpgid(0, 0)  # those that it starts end with it
    pipe.send(call())
    pipe.close()


def _received(pipes: Sequence[Connection], deadline: float) -> dict[Any, Outcome]:
    found: dict[Any, Outcome] = {}
    while len(found) < len(pipes) and (left := deadline - time.monotonic()) > 0:
        for pipe in wait([pipe for pipe in pipes if pipe not in found], left):
            try:
                found[pipe] = pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                found[pipe] = "fails", "the process died"
            if found[pipe][0] == "fails":
                deadline = min(deadline, time.monotonic() + GRACE)
    return found


def _end(child: Any) -> None:
    child.join(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.join()


class Asked:
    """Runs tests with `ranks`, and knows how many have asked for them."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.count = 0

    def run(self, call: Call, count: int) -> None:
        """Raises what a test raises that fails, or skips itself."""
        self.count += 1
        kind, detail = worst(self.ranks.outcomes(call, count), ("passes", ""))
        if kind == "skips":
            raise unittest.SkipTest(detail)
        if kind == "fails":
            raise AssertionError(detail)


def put(asked: Asked) -> None:
    """Have all tests of several ranks run by `asked`."""
    import torch
    from torch.testing._internal import common_distributed, common_fsdp

    torch.set_num_threads(1)
    torch.accelerator.device_count = lambda: DEVICES
    common_fsdp.DEVICE_COUNT = DEVICES
    _put_processes(asked, common_distributed.MultiProcessTestCase)
    _put_kept_processes(asked, common_distributed.MultiProcContinuousTest)
    _put_threads(asked, common_distributed.MultiThreadedTestCase)


def _name(case: Any) -> str:
    return str(case.id().rsplit(".", 1)[-1])


def _put_processes(asked: Asked, kind: Any) -> None:
    def join(case: Any, test: Any) -> None:
        run = functools.partial(type(case)._run, fake_pg=getattr(case, "fake_pg", False))
        asked.run(lambda rank: run(rank, _name(case), case.file_name, None), int(case.world_size))

    def run_test(case: Any, name: str, pipe: Any) -> None:
        import torch.distributed as dist
        from torch.testing._internal import common_utils

        common_utils.set_rng_seed()
        getattr(case, name)()
        if case.destroy_pg_upon_exit and dist.is_initialized():
            dist.destroy_process_group()

    kind._spawn_processes = lambda case: None
    kind._join_processes = join
    kind.run_test = run_test


def _put_kept_processes(asked: Asked, kind: Any) -> None:
    def begin(case: Any) -> None:
        case.world_size, case.task_queues = case._get_world_size("cpu"), []

    def rank_of(case: Any, file: str, rank: int) -> None:
        import torch.distributed as dist
        from torch.testing._internal import common_utils

        case._init_pg(rank, case.world_size, file)
        one = type(case)(_name(case))
        one.rank, one.world_size, one.pg = rank, case.world_size, dist.group.WORLD
        common_utils.set_rng_seed()
        getattr(one, _name(case))()
        dist.destroy_process_group()

    def join(case: Any, test: Any) -> Any:
        def chosen() -> None:
            if case.rank != case.MAIN_PROCESS_RANK:
                test()
                return
            with tempfile.TemporaryDirectory() as folder:
                asked.run(functools.partial(rank_of, case, f"{folder}/store"), case.world_size)

        return chosen

    kind._ensure_processes_spawned = classmethod(begin)
    kind._worker_run_main_wait = join


def _put_threads(asked: Asked, kind: Any) -> None:
    def rank_of(case: Any, file: str, rank: int) -> None:
        import torch.distributed as dist

        one = type(case)(_name(case))
        one.rank = rank
        dist.init_process_group("gloo", rank=rank, world_size=case.world_size, store=dist.FileStore(file, case.world_size))
        one.perThreadSetUp()
        getattr(one, _name(case))()
        dist.destroy_process_group()
        one.perThreadTearDown()

    def join(case: Any, threads: Any, test: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            asked.run(functools.partial(rank_of, case, f"{folder}/store"), case.world_size)

    kind._spawn_threads = lambda case: None
    kind._join_threads = join


def put_in_place_of_gloo(backend: str) -> None:
    """Let tests that ask for gloo, or for what is usual on a CPU, get `backend`."""
    import torch.distributed as dist
    from torch.distributed import device_mesh

    usual = (None, "gloo", "cpu:gloo", "cpu:gloo,cuda:nccl")

    def renamed(theirs: Any, place: int, absent: Any) -> Any:
        @functools.wraps(theirs)
        def ours(*given: Any, **more: Any) -> Any:
            if len(given) > place and given[place] in usual:
                given = (*given[:place], backend, *given[place + 1 :])
            elif len(given) <= place and more.get("backend", absent) in usual:
                more["backend"] = backend
            return theirs(*given, **more)

        return ours

    begin = renamed(dist.init_process_group, 0, None)
    group = renamed(dist.new_group, 2, "that of the world")
    for module in (dist, dist.distributed_c10d, device_mesh):
        module.init_process_group, module.new_group = begin, group  # type: ignore[attr-defined]
