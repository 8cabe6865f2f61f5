"""Join a run from a script that was started by torchrun, SLURM, MPI, Ray, Kubernetes or by hand."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polyrhythm import systems
from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.checkpoints.request import Checkpoints, given_checkpoints
from polyrhythm.core.job_files.script import refuse_while_imported
from polyrhythm.core.job_files.values import ANYTHING, read
from polyrhythm.core.kernel.crew import FIXED, Crew
from polyrhythm.core.kernel.names import worker as name_of
from polyrhythm.core.kernel.seat import seat
from polyrhythm.core.kernel.stopping import StopSignals, tell
from polyrhythm.core.processes.rendezvous.entrance import FixedEntrance
from polyrhythm.core.processes.rendezvous.join import JoinedRun, Joining, attend
from polyrhythm.core.processes.rendezvous.locations import locate
from polyrhythm.core.processes.rendezvous.rank_environment import find_rank_environment, rank_in
from polyrhythm.core.processes.rendezvous.rendezvous import Rendezvous
from polyrhythm.core.processes.runtime.stall_detection import Patience
from polyrhythm.core.processes.system.linux import require_linux
from polyrhythm.core.protocols.metrics_logger import MetricsLogger
from polyrhythm.core.protocols.partition import ModelPartition
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

_IN_VIRTUAL_TIME = "Ranks in virtual time have no mesh of ours: give mesh= and cut= to pr.run(train, on=pr.Simulator())."


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
        chosen = _of_whole_models(strategy or here.usual() or _usual(), mesh, _IN_VIRTUAL_TIME)
        return join_seat(here, chosen, whole_number("seed", seed, "the same at all ranks"), group, checkpoints)
    require_linux("join(), which makes a worker of this process,")
    refuse_while_imported("pr.join")
    leave_failed()
    seed = whole_number("seed", seed, "the same at all ranks")
    wanted, given = given_checkpoints(checkpoints), _usual() if strategy is None else strategy
    joining = Joining(patience=Patience(timeout=timeout), bind=bind or "")
    if (crew := given_crew(workers)) is not None and not crew.fixed:
        one = _of_whole_models(given, mesh, f"workers={crew} is a crew that changes, and a mesh has a fixed number: leave one out.")
        return join_crew(one, crew, seed, directory, joining, wanted, loggers)
    place = find_rank_environment() if group is None else rank_in(group)
    partition, _ = given_partition(mesh, cut, given, place.workers)
    common = _Common(given_strategy(given, partition), partition, seed, wanted)
    used = common.used(place.workers, crew)
    outcome = Outcome(Summary(common.strategy.name, used, "processes", None, seed), settings={"strategy": repr(common.strategy)})
    records = {} if directory is None else {name_of(rank): make(directory) / f"worker-{rank}" for rank in range(used)}
    log = Log(outcome, records.pop(name_of(place.rank), None), ignore, () if place.rank else loggers, wanted)
    signals = StopSignals().install()
    with _told(log, signals, name_of(place.rank)), attend(place, joining) as rendezvous:
        plan, chosen_checkpoints, joined = common.meet(rendezvous, joining, log)
    membership = Membership(joined, log, signals, records)
    context, local = context_of_part(joined.context, plan.mesh), partition.at(joined.context, plan.mesh)
    worker = Worker(context, plan, chosen_checkpoints, membership.leave, local=local)
    membership.of(worker)
    return worker


@contextmanager
def _told(log: Log, signals: StopSignals, name: str) -> Iterator[None]:
    """Have an error in the record of the worker `name`, whose signals are then the program's again."""
    try:
        yield
    except BaseException as problem:
        log.fail(problem, name)
        signals.restore()
        if isinstance(problem, Stopped):
            tell(problem, name)
        raise


@dataclass(frozen=True, slots=True)
class _Common:
    """What all processes of a run must have been started with."""

    strategy: Strategy
    partition: ModelPartition
    seed: int
    checkpoints: Checkpoints

    def used(self, started: int, crew: Crew | None) -> int:
        """The number of workers. Raises CompositionError if it, or the `crew` that was given, is not what was `started`."""
        refuse_in_parts(self.strategy, self.partition.shape, FIXED)
        if crew is not None and crew.most != started:
            raise CompositionError(f"workers={crew} were wanted, but {started} processes were started: start {crew}, or give no workers.")
        used = self.partition.shape.workers(self.strategy.workers, started)
        if used != started:
            raise CompositionError(f"{self.strategy.name} uses {used} workers, but {started} processes were started: start {used}.")
        return used

    def meet(self, rendezvous: Rendezvous, joining: Joining, log: Log) -> tuple[StrategyPlan, CheckpointPlan, JoinedRun]:
        """Meet the others, who must have the same."""
        shape = self.partition.shape
        plan = StrategyPlan.of(self.strategy, locate(rendezvous), self.seed, shape=shape)
        layout = {} if shape.flat else {LAYOUT: repr(self.partition)}
        checkpoints = planned(plan, self.checkpoints, circumstances(sys.modules["__main__"], "processes") | layout)
        job = make_job(elsewhere, plan, checkpoints, partition=self.partition)
        resumed = "" if checkpoints.resumed is None else checkpoints.resumed.path.name
        facts = {**described(self.strategy), "resumed from": resumed, **layout}
        return plan, checkpoints, JoinedRun(job, log.record, FixedEntrance(rendezvous), replace(joining, facts=facts))


def _of_whole_models(strategy: Strategies, mesh: Mesh | None, refused: str) -> Strategy:
    """The strategy where each worker has a whole model. Raises CompositionError, as `refused`, for a mesh or strategies of its axes."""
    if mesh is not None or isinstance(strategy, Zero | Mapping):
        raise CompositionError(refused)
    return systems.resolve(strategy)


def _usual() -> Strategy:
    """The strategy of a worker that names none: that of the environment."""
    name, *options = shlex.split(os.environ.get(SYSTEM, "")) or ["allreduce"]
    given = [each.partition("=")[::2] for each in options]
    return systems.find(name, **{key: read(value, ANYTHING) for key, value in given})
