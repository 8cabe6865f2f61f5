"""Join a run from a script that was started by torchrun, SLURM, MPI, Ray, Kubernetes or by hand."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyrhythm import systems
from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.checkpoints.request import Checkpoints, given_checkpoints
from polyrhythm.core.job_files.script import refuse_while_imported
from polyrhythm.core.job_files.values import ANYTHING, read
from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.crew import FIXED, Crew
from polyrhythm.core.kernel.mesh import MeshShape
from polyrhythm.core.kernel.names import worker as name_of
from polyrhythm.core.kernel.seat import seat
from polyrhythm.core.kernel.stopping import StopSignals, tell
from polyrhythm.core.processes.rendezvous.entrance import FixedEntrance
from polyrhythm.core.processes.rendezvous.join import JoinedRun, Joining, attend
from polyrhythm.core.processes.rendezvous.locations import locate
from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment, rank_in
from polyrhythm.core.processes.runtime.stall_detection import Patience
from polyrhythm.core.processes.system.linux import require_linux
from polyrhythm.core.protocols.metrics_logger import MetricsLogger
from polyrhythm.core.records.directory import make
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import ignore
from polyrhythm.core.settings import whole_number
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.checkpoint_plan import described, planned
from polyrhythm.core.training.circumstances import LAYOUT, circumstances
from polyrhythm.core.training.join_crew import elsewhere, given_crew, join_crew
from polyrhythm.core.training.join_seat import join_seat
from polyrhythm.core.training.layouts import Strategies, given_partition, given_strategy
from polyrhythm.core.training.log import Log
from polyrhythm.core.training.membership import Membership, leave_failed
from polyrhythm.core.training.part_context import context_of_part, refuse_in_parts
from polyrhythm.core.training.work import make_job
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError, Stopped
from polyrhythm.partition.cut import Cut
from polyrhythm.partition.mesh import Mesh
from polyrhythm.partition.zero.zero import Zero

SYSTEM = "POLYRHYTHM_SYSTEM"
"""The variable with the system of scripts that name none, and its options: "diloco period=50"."""


def join(
    strategy: Strategies | None = None,
    *,
    workers: int | tuple[int, int] | Crew | None = None,
    mesh: Mesh | None = None,
    cut: Cut | None = None,
    seed: int = 0,
    directory: str | Path | None = None,
    timeout: float | None = None,
    checkpoints: Checkpoints | None = None,
    loggers: Sequence[MetricsLogger] = (),
    bind: str | None = None,
    group: Any = None,
) -> Worker:
    """Make this process a worker of a run, in which the processes meet that a launcher has started together.

    `strategy` is a published system's name or a composition of your own. Without one it is that of POLYRHYTHM_SYSTEM, such as
    "diloco period=50", or what `pr.simulate` and `polyrhythm compare` choose for their runs; else "allreduce".

    The rank and the number of workers come from the process group of torch.distributed, if one is initialised, else from the variables of
    torchrun, SLURM, MPI or a Kubernetes Job. Returns when all processes have joined. The script then trains as a training function does,
    and leaves the run when it ends; call `worker.finish()` before you use the final weights, or `worker.leave()` to end the run sooner and
    perhaps join another. With a `directory`, this worker's record is written to `directory`/worker-RANK from the beginning, as by `run`.
    A script succeeds by reaching its end or by `sys.exit(0)`, and then waits for the others; if it fails, all others fail too, with an
    error that names it. After waiting `timeout` seconds for a worker that makes no progress, the run stops with an error that names it;
    without a timeout this is only reported on stderr. `checkpoints` are those of `run`; all hosts must share the directory.
    SIGTERM and the like end the script as they end `run`. Worker 0 has the `loggers`, as those of `run`. `bind` is
    the address of this host to listen at, instead of that of the interface towards worker 0.

    With `workers=(2, 8)`, or POLYRHYTHM_WORKERS=2..8, workers may join and leave while the run goes on, and there is no launcher: each
    process that has the same MASTER_ADDR, MASTER_PORT and POLYRHYTHM_SECRET is one of them. The run begins when two have come. A lost
    worker is left out, and SIGTERM has one leave with notice. There are no servers and no checkpoints in such a run.

    With a `mesh` the processes are on its named axes, in the order of their ranks, and `cut` divides models along some, as in `run`.

    With a `group` of torch.distributed, such as that of an axis of a device mesh, the ranks of this group are the workers of one run, and
    each group along the axis has its own: `diloco` between sites, say, of models that FSDP2 shards within each. A sharded model is attached
    like another; each rank then exchanges its shards.

    Raises CompositionError if a launcher is at
    work and gives no rank, if the number of processes is not what the strategy uses, or if their settings differ; RunError if the others do
    not join.
    """
    if (here := seat()) is not None:
        if mesh is not None or isinstance(strategy, Zero | Mapping):
            raise CompositionError("Ranks in virtual time have no mesh of ours: give mesh= and cut= to pr.run(train, on=pr.Simulator()).")
        chosen = systems.resolve(strategy or here.usual() or _usual())
        return join_seat(here, chosen, whole_number("seed", seed, "the same at all ranks"), group, checkpoints)
    require_linux("join(), which makes a worker of this process,")
    refuse_while_imported("pr.join")
    leave_failed()
    seed = whole_number("seed", seed, "the same at all ranks")
    wanted, joining = given_checkpoints(checkpoints), Joining(patience=Patience(timeout=timeout), bind=bind or "")
    given = _usual() if strategy is None else strategy
    if (crew := given_crew(workers)) is not None and not crew.fixed:
        if mesh is not None or isinstance(given, Zero | Mapping):
            raise CompositionError(f"workers={crew} is a crew that changes, and a mesh has a fixed number: leave one of them out.")
        return join_crew(systems.resolve(given), crew, seed, directory, joining, wanted, loggers)
    place = find_rank_environment() if group is None else rank_in(group)
    partition, _ = given_partition(mesh, cut, given, place.workers)
    chosen = given_strategy(given, partition)
    refuse_in_parts(chosen, partition.shape, FIXED)
    used = _used(chosen, place.workers, crew, partition.shape)
    outcome = Outcome(Summary(chosen.name, used, "processes", None, seed), settings={"strategy": repr(chosen)})
    records = {} if directory is None else {name_of(rank): make(directory) / f"worker-{rank}" for rank in range(used)}
    log = Log(outcome, records.pop(name_of(place.rank), None), ignore, () if place.rank else loggers, wanted)
    signals = StopSignals().install()
    try:
        with attend(place, joining) as rendezvous:
            plan = StrategyPlan.of(chosen, locate(rendezvous), seed, shape=partition.shape)
            layout = {} if partition.shape.flat else {LAYOUT: repr(partition)}
            planned_checkpoints = planned(plan, wanted, circumstances(sys.modules["__main__"], "processes") | layout)
            job = make_job(elsewhere, plan, planned_checkpoints, partition=partition)
            started = replace(joining, facts={**_facts(chosen, planned_checkpoints), **layout})
            joined = JoinedRun(job, log.record, FixedEntrance(rendezvous), started)
    except BaseException as problem:
        log.fail(problem, name_of(place.rank))
        signals.restore()
        if isinstance(problem, Stopped):
            tell(problem, name_of(place.rank))
        raise
    membership = Membership(joined, log, signals, records)
    whole = joined.context
    local = partition.at(whole, plan.mesh)
    worker = Worker(context_of_part(whole, plan.mesh), plan, planned_checkpoints, membership.leave, local=local)
    membership.of(worker)
    return worker


def _usual() -> Strategy:
    """The strategy of a worker that names none: that of the environment."""
    name, *options = shlex.split(os.environ.get(SYSTEM, "")) or ["allreduce"]
    given = [each.partition("=")[::2] for each in options]
    return systems.find(name, **{key: read(value, ANYTHING) for key, value in given})


def _facts(strategy: Strategy, checkpoints: CheckpointPlan) -> Facts:
    """What all must have been started with."""
    return {**described(strategy), "resumed from": "" if checkpoints.resumed is None else checkpoints.resumed.path.name}


def _used(strategy: Strategy, started: int, crew: Crew | None, shape: MeshShape) -> int:
    """The number of workers of `strategy`. Raises CompositionError if it, or the `crew` that was given, is not what was `started`."""
    if crew is not None and crew.most != started:
        raise CompositionError(f"workers={crew} were wanted, but {started} processes were started: start {crew}, or give no workers.")
    used = shape.workers(strategy.workers, started)
    if used != started:
        raise CompositionError(f"{strategy.name} uses {used} workers, but {started} processes were started: start {used}.")
    return used
