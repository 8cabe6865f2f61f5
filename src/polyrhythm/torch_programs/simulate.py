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
from polyrhythm.core.simulator.process_state import OwnModules
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.torch_private import forget_shardings
from polyrhythm.core.training.log import Log
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import Attempt, carry_out
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.torch_programs.clocks import virtual_clocks
from polyrhythm.torch_programs.in_place_of_python import process_of_ranks
from polyrhythm.torch_programs.in_place_of_torch import groups_of_ranks
from polyrhythm.torch_programs.launch import ranks_of_launches
from polyrhythm.torch_programs.memory import Memory, modules_followed
from polyrhythm.torch_programs.program import Copies, FunctionProgram, Main, ScriptProgram, environment
from polyrhythm.torch_programs.ranks import memory_here
from polyrhythm.torch_programs.runs import VirtualRuns, launched
from polyrhythm.torch_programs.steps import steps_counted

SYSTEM = "torch.distributed"
"""The name of such a program in tables, where a run has that of its system."""

NOT_CHARGED = "not charged"
"""The setting that lists what a run has computed, and has not charged."""


def simulate(
    program: str | Path | Callable[..., Any],
    *arguments: Any,
    ranks: int | None = None,
    on: Simulator | None = None,
    directory: str | Path | None = None,
    timeline: bool = False,
    measure: str | Path | None = None,
    memory: bool = False,
) -> Run:
    """Run a program of torch.distributed, unchanged, on a simulated cluster: real tensors and gradients, in virtual time.

    `program` is a function, called with the `arguments` at each of the `ranks`, or the path of a script, which finds them in `sys.argv`. It
    calls `init_process_group` as under torchrun, whose variables it has: RANK, WORLD_SIZE, MASTER_ADDR and others, each rank on a host
    of its own. All collectives are messages over the network of `on`; `time` and `perf_counter` are its clock. Steps of optimizers
    are recorded, into a `directory` too if there is one, and with a `timeline` all messages.

    Without `ranks` it is called once, and the processes that it starts with torch.multiprocessing are the ranks, in their order.

    Computing costs its counted operations, at the speed of `on.devices`. With `measure`, it costs the CPU seconds that it takes here, and
    the medians are written to that file: given as `devices` of later runs, which repeat to the byte, it has them charged.

    With `memory`, the bytes of tensors that each rank held at its peak are recorded, by role and by module.

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
        file = None if measure is None else Path(measure)
        tried = attempt_program(
            main_of(program, arguments), ranks, runtime, directory, begin(SYSTEM), timeline, measure=file, memory=memory
        )
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
    ranks: int | None,
    on: Simulator,
    directory: str | Path | None = None,
    watch: Watch = ignore,
    timeline: bool = False,
    notes: Mapping[str, str] | None = None,
    measure: Path | None = None,
    memory: bool = False,
) -> Attempt:
    """Run `main` as `simulate` does, and return a failed run too. What could not be charged is in the settings of its record."""
    if not isinstance(on, Simulator):
        raise CompositionError(f"on={on!r} is no simulator: give pr.Simulator(network=...); torchrun starts a script on real processes.")
    if ranks is not None and whole_number("ranks", ranks, "1 or more") < 1:
        raise CompositionError(f"ranks={ranks} is no number of ranks: give 1 or more.")
    summary = Summary(SYSTEM, ranks or 0, on.kind, on.network_name, on.seed)
    outcome = Outcome(summary, settings={"program": str(main), "runtime": repr(on), **(notes or {})})

    def execute(record: Recorder) -> Ending:
        forget_shardings()  # ranks may fork processes, such as those of a DataLoader
        runs = VirtualRuns(on, record, timeline, OwnModules(main.folder), measure, Memory if memory else lambda: None)
        try:
            with (
                groups_of_ranks(),
                process_of_ranks(),
                virtual_clocks(),
                steps_counted(),
                ranks_of_launches(),
                modules_followed(memory_here),
            ):
                if ranks is not None:
                    return runs.run(Copies(main, ranks, environment, on.seed))
                ending = launched(main, runs, on.seed)
                summary.workers = len(ending.results)
                return ending
        finally:
            if remarks := runs.conclude():
                outcome.settings[NOT_CHARGED] = "; ".join(remarks)

    with stoppable():
        return carry_out(execute, Log(outcome, directory, watch))
