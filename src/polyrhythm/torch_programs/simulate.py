"""`simulate`: a program of torch.distributed in virtual time, with real values. Users and `polyrhythm simulate` call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.stopping import stoppable, stops_reported
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch, ignore, progress
from polyrhythm.core.settings import whole_number
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.training.log import Log
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import Attempt, carry_out
from polyrhythm.errors import CompositionError, DeadlockError, WorkloadError
from polyrhythm.process_group.messages.desk import explained
from polyrhythm.torch_programs.clocks import virtual_clocks
from polyrhythm.torch_programs.in_place_of_torch import groups_of_ranks
from polyrhythm.torch_programs.meeting import SharedByRanks
from polyrhythm.torch_programs.program import FunctionProgram, Main, ScriptProgram, job_of
from polyrhythm.torch_programs.steps import steps_counted

SYSTEM = "torch.distributed"
"""The name of such a program in tables, where a run has that of its system."""


def simulate(
    program: str | Path | Callable[..., Any],
    *arguments: Any,
    ranks: int = 2,
    on: Simulator | None = None,
    directory: str | Path | None = None,
    timeline: bool = False,
) -> Run:
    """Run a program of torch.distributed, unchanged, on a simulated cluster: real tensors and gradients, in virtual time.

    `program` is a function, called with the `arguments` at each of the `ranks`, or the path of a script, which finds them in `sys.argv`. It
    calls `init_process_group` as under torchrun, whose variables it has: RANK, WORLD_SIZE, MASTER_ADDR and others, each rank on a host
    of its own. All collectives are messages over the network of `on`; `time` and `perf_counter` are its clock. RankSteps of optimizers
    are recorded, into a `directory` too if there is one, and with a `timeline` all messages.

    Raises PolyrhythmErrors: WorkerFailed for an error in the program, DeadlockError where all ranks wait, RunError where they disagree on a
    collective.

    Examples:
        >>> import torch, torch.distributed as dist
        >>> def main():
        ...     dist.init_process_group("gloo")
        ...     ones = torch.ones(1000)
        ...     dist.all_reduce(ones)
        ...     assert ones[0] == dist.get_world_size()
        >>> simulate(main, ranks=4, on=Simulator(network="slow")).summary.virtual_seconds > 0.01
        True
    """
    runtime = Simulator() if on is None else on
    with stops_reported(), progress(1, wanted=True) as begin:
        tried = attempt_program(main_of(program, arguments), ranks, runtime, directory, begin(SYSTEM), timeline)
    if tried.error is not None:
        raise tried.error
    return Run(tried.outcome)


def main_of(program: str | Path | Callable[..., Any], arguments: tuple[Any, ...]) -> Main:
    """The program as each rank calls it. Raises WorkloadError for what is neither a function nor a file."""
    if callable(program):
        return FunctionProgram(program, arguments)
    path = Path(program)
    if not path.is_file():
        raise WorkloadError(f"{path} is no file: give the path of a script that calls torch.distributed.init_process_group.")
    return ScriptProgram(path, tuple(map(str, arguments)))


def attempt_program(
    main: Main,
    ranks: int,
    on: Simulator,
    directory: str | Path | None = None,
    watch: Watch = ignore,
    timeline: bool = False,
    notes: Mapping[str, str] | None = None,
) -> Attempt:
    """Run `main` as `simulate` does, and return a failed run too."""
    if not isinstance(on, Simulator):
        raise CompositionError(f"on={on!r} is no simulator: give pr.Simulator(network=...); torchrun starts a script on real processes.")
    if whole_number("ranks", ranks, "1 or more") < 1:
        raise CompositionError(f"ranks={ranks} is no number of ranks: give 1 or more.")
    summary = Summary(SYSTEM, ranks, on.kind, on.network_name, on.seed)
    outcome = Outcome(summary, settings={"program": str(main), "runtime": repr(on), **(notes or {})})
    shared = SharedByRanks(on.locations(ranks))
    job = job_of(main, ranks, on.seed, shared, timeline)

    def execute(record: Recorder) -> Ending:
        with groups_of_ranks(), virtual_clocks(), steps_counted():
            try:
                return on.execute(job, record)
            except DeadlockError as problem:
                when, _, what = str(problem).partition(": ")
                raise DeadlockError(f"{when}: {explained(shared.desks) or what}.") from None

    with stoppable():
        return carry_out(execute, Log(outcome, directory, watch))
