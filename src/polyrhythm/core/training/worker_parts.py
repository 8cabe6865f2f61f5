"""The parts of a worker, each made for the others. `Worker` has them, and the training function uses them through it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from polyrhythm.core import rng
from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.kernel.crew import BatchRule
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.deal_rules import PerRound, PerWorker
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.changing import ChangingCrew
from polyrhythm.core.training.checkpoint_plan import manifest_of
from polyrhythm.core.training.checkpointing import Checkpointing
from polyrhythm.core.training.collectives.call_record import CallRecord
from polyrhythm.core.training.collectives.together import Together
from polyrhythm.core.training.collectives.user_collectives import collectives
from polyrhythm.core.training.data.data import Data
from polyrhythm.core.training.models import Models
from polyrhythm.core.training.regrouping import Regrouping
from polyrhythm.core.training.steps import Steps
from polyrhythm.core.training.tables import Tables
from polyrhythm.core.training.whole_batches import WholeBatches
from polyrhythm.core.training.worker_state import WorkerState


class WorkerParts(NamedTuple):
    """The models and tables of a worker, its state, steps, data and calls, its checkpoints, and its side of a crew that changes."""

    models: Models
    tables: Tables
    batches: WholeBatches
    state: WorkerState
    steps: Steps
    together: Together
    data: Data
    checkpointing: Checkpointing
    crew: ChangingCrew


class WorkerHooks(NamedTuple):
    """What a worker does for its parts: `place` takes the ranks of a plan, `between` is called between steps, `drawn` with samples."""

    place: Callable[[StrategyPlan], None]
    between: Callable[[], None]
    drawn: Callable[[int], None]


def present(crew: ChangingCrew, models: Models) -> View:
    """The workers that are there, as this one knows."""
    view = crew.view
    for name in models.view.now.left:  # without which the others have continued
        view = view.without(name)
    return view


def assembled(context: WorkerContext, plan: StrategyPlan, chosen: CheckpointPlan, hooks: WorkerHooks) -> WorkerParts:
    """The parts of the worker of `context` among those of `plan`, with the checkpoints that were `chosen`."""
    mesh, strategy, name = plan.mesh, plan.strategy, context.port.name
    group, replicas = mesh.world(name), mesh.shares(name)
    models = Models(plan, context, chosen.began)
    tables = Tables(plan, context, models)
    state = WorkerState(context, models.replicas, tables.states, chosen, group, hooks.between)
    steps = Steps(context, models, tables.states, state)
    calls = CallRecord(state.position, context.crew.changes, chosen.handed)
    together = Together(collectives(strategy, context.port, models.view), group, mesh.sums(name), context.perform, calls)
    size = PerWorker() if plan.batch is BatchRule.WORKER else PerRound(plan.first)
    data = Data(strategy.shuffle, replicas, together, hooks.drawn, state.position, models, models.follow_losses, size)
    data.drawn, steps.data = models.batch, data
    models.weight = lambda: state.position.weight
    if chosen.handed is not None:
        models.evaluation.join()
        data.regroup(replicas, *chosen.handed["used"])
    elif used := state.used:
        data.regroup(replicas, used, next(iter(used)))
    drawing = replicas.rank if mesh.cut else rank_of(name)  # the workers of one replica draw the same
    rng.seed_everything(mesh.seed, "worker", drawing, *state.incarnation)
    checkpointing = Checkpointing(chosen, context, group, state, partial(manifest_of, plan))
    checkpointing.begin(models.follow_losses)
    regrouping = Regrouping(context, models, state, checkpointing, calls, steps, together, data, hooks.place)
    steps_before = {} if chosen.handed is None else {key: chosen.handed[key] for key in ("began", "dealt")}
    crew = ChangingCrew(context, plan, View(chosen.epoch, mesh.members), regrouping, **steps_before)
    calls.reform = models.reform = crew.reform
    checkpointing.losses = lambda: len(present(crew, models).left)
    batches = WholeBatches(context, models, tables.states)
    return WorkerParts(models, tables, batches, state, steps, together, data, checkpointing, crew)
