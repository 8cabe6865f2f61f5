"""`polyrhythm join`: this process is one of the workers of a JOB, all of which a launcher has started."""

from __future__ import annotations

import sys
import traceback
from functools import partial
from shlex import quote
from types import TracebackType
from typing import Annotated

import typer

from polyrhythm.tools.cli.failures import guarded, notice
from polyrhythm.tools.cli.groups import CheckpointOptions, JobOptions, grouped
from polyrhythm.tools.cli.options import Arguments, Job, Json, MaybeChanging, Out, Seed, System, Timeout
from polyrhythm.tools.cli.typed_layout import LayoutOptions, systems_typed

Bind = Annotated[
    str | None, typer.Option("--bind", metavar="ADDRESS", help="The address of this host to listen at; default: the one towards worker 0.")
]


@guarded
@grouped
def join(
    job: Job,
    arguments: Arguments = None,
    system: System = "allreduce",
    timeout: Timeout = None,
    bind: Bind = None,
    workers: MaybeChanging = None,
    seed: Seed = 0,
    *,
    layout: LayoutOptions,
    own: JobOptions,
    out: Out = None,
    checkpoints: CheckpointOptions,
    as_json: Json = False,
) -> None:
    """Be one of the workers that train JOB: to be started once for each, by torchrun, srun, mpirun or a Kubernetes Job.

    The rank and the number of workers come from the variables of what has started it. Worker 0 prints the result; with --out each worker
    writes its record to a directory below that one. With --workers 2..8 processes that you start yourself join and leave meanwhile.
    """
    from polyrhythm.core.training import join as training
    from polyrhythm.errors import Stopped
    from polyrhythm.tools.cli.output import print_json, print_outcomes, reserved
    from polyrhythm.tools.cli.pairs import pairs
    from polyrhythm.tools.cli.prepare import own_arguments
    from polyrhythm.workloads.load import load_workload

    sys.excepthook = _show_users_part
    strategy, mesh = systems_typed(system, pairs(own.options or [], "--option")), layout.typed()
    with reserved(as_json), own_arguments(job, arguments or []):
        train = load_workload(job, pairs(own.settings or [], "--set"))
        kept = checkpoints.wanted()
        begin = partial(training.join, strategy, mesh=mesh, cut=layout.divided(job), workers=workers, seed=seed)
        worker = begin(directory=out, timeout=timeout, checkpoints=kept, bind=bind)
        try:
            train(worker)
            run = worker.leave()
        except Stopped as problem:
            problem.is_told = True  # when the run is left, at exit, which knows more
            raise
    if not worker.is_first:
        return
    if as_json:
        print_json(run.summary)
    else:
        print_outcomes([run.outcome])
    if out is not None:
        notice(f"the records of the run are in {out}; `polyrhythm report {quote(str(out))}` draws worker 0's")


def _show_users_part(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an exception of the JOB without what is above its own code."""
    from polyrhythm.core.processes.runtime.failure import users_part

    at = trace
    while at is not None and at.tb_frame.f_code.co_filename != __file__:
        at = at.tb_next
    traceback.print_exception(kind, error, users_part(at) or trace)
