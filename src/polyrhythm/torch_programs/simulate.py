"""`simulate`: a program of torch.distributed in virtual time, with real values. Users and `polyrhythm simulate` call it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyrhythm import systems
from polyrhythm.core.kernel.stopping import stops_reported
from polyrhythm.core.records.progress import progress
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.errors import WorkloadError
from polyrhythm.torch_programs.program import FunctionProgram, Main, ScriptProgram
from polyrhythm.torch_programs.program_run import ProgramRun
from polyrhythm.torch_programs.rank_settings import RankSettings


def simulate(
    program: str | Path | Callable[..., Any],
    *arguments: Any,
    ranks: int | None = None,
    on: Simulator | None = None,
    directory: str | Path | None = None,
    timeline: bool = False,
    measure: str | Path | None = None,
    memory: bool = False,
    strategy: str | Strategy | None = None,
    steps: int | None = None,
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

    With a `strategy`, that is the one of `pr.join()` where the program names none: an exchange on one axis of its mesh. After so many
    `steps` of its optimizer each rank ends, as soon as another begins.

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
    chosen = RankSettings(None if strategy is None else systems.resolve(strategy), steps=steps)
    run = ProgramRun(
        main_of(program, arguments),
        ranks,
        Simulator() if on is None else on,
        chosen,
        timeline,
        measure=None if measure is None else Path(measure),
        memory=memory,
    )
    with stops_reported(), progress(1, wanted=True) as begin:
        tried = run.attempt(directory, begin(run.system))
    return Run(tried.completed())


def main_of(program: str | Path | Callable[..., Any], arguments: tuple[Any, ...]) -> Main:
    """The program as each rank calls it. Raises WorkloadError for what is neither a function nor a file."""
    if callable(program):
        return FunctionProgram(program, arguments)
    path = Path(program)
    if not path.is_file():
        raise WorkloadError(f"{path} is no file: give the path of a script that calls torch.distributed.init_process_group.")
    return ScriptProgram(path, tuple(map(str, arguments)))
