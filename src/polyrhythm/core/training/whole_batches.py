"""The whole batch that a training function may have: its opening, its optimizer's step, its weights."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.common_state import CommonState
from polyrhythm.core.settings import shown
from polyrhythm.core.strategy.hand_over import HandOver
from polyrhythm.core.strategy.service import announce_opening
from polyrhythm.core.strategy.strategy_plan import PlannedExchange
from polyrhythm.core.torch_private.one_process import mark_stepped, mark_wrapped_by_scheduler, step_post_hooks, step_pre_hooks
from polyrhythm.core.training.followed_batch import FollowedBatch
from polyrhythm.core.training.models import Models
from polyrhythm.core.whole_batch.batch_opening import BatchOpening
from polyrhythm.core.whole_batch.batch_state import BatchJob, BatchState
from polyrhythm.core.whole_batch.coordinator import BatchCoordinator
from polyrhythm.core.whole_batch.whole_batch import WholeBatch
from polyrhythm.errors import CompositionError, WorkloadError

NAME, _SCOPE = "whole batch", "b0/"
Evaluated = Callable[[BatchState, Callable[[], None]], None]
"""Takes a step of a state, after its evaluations were made by the function."""


class WholeBatches:
    """`states` are those that the worker shares with others, by name; the whole batch is one of them."""

    def __init__(self, context: WorkerContext, models: Models, states: MutableMapping[str, CommonState]) -> None:
        self.context = context
        self.models = models
        self.states = states
        self.state: BatchState | None = None

    def open(self, job: BatchJob, optimizer: torch.optim.Optimizer, copies: int, evaluated: Evaluated) -> WholeBatch:
        """Have the servers hold the weights; `optimizer.step(closure)` calls `evaluated` from then on."""
        planned = self._keeping()
        self._check(job, optimizer, copies)
        state = self.states[NAME] = self.state = BatchState(job, self.context, None)
        state.reform = self.models.reform
        state.coordinator = self._announced(state, planned.servers, optimizer, copies)
        state.connect(planned.servers, self.context.port.scoped(_SCOPE))
        self.models.evaluation.follow_state(FollowedBatch(state, planned.servers, _SCOPE))
        self.models.regrouped.append(partial(self._regroup, state, optimizer, copies))
        _take_over(optimizer, state, evaluated)
        return WholeBatch(state)

    def _announced(
        self, state: BatchState, servers: Sequence[str], optimizer: torch.optim.Optimizer, copies: int
    ) -> BatchCoordinator | None:
        """Announce the batch to the servers of the present view, at its first worker, who coordinates.

        Servers that had it in the view before take over the vectors that they had, and not the weights of the announcement.
        """
        context, job = self.context, state.job
        context.agree({NAME: state.shape}, "give the same model, data and portions at every worker.")
        if not self.models.plan.mesh.world(context.port.name).is_first:
            return None
        weights = job.flat()
        opening = BatchOpening(_SCOPE, len(job.portions), copies, context.crew.changes)
        for server, part in zip(servers, weights.tensor_split(len(servers)), strict=True):
            context.perform(announce_opening(context.port, opening, server, (part,)))
        return BatchCoordinator(optimizer, weights.numel(), weights.dtype, context)

    def _regroup(self, state: BatchState, optimizer: torch.optim.Optimizer, copies: int, handed: HandOver) -> None:
        servers = self._keeping().servers
        coordinator = self._announced(state, servers, optimizer, copies)
        state.regroup(servers, self.context.port.scoped(_SCOPE), coordinator, handed.state["tables"][NAME]["clock"])

    def refuse_attaching(self) -> None:
        """Raise WorkloadError where a whole batch was opened: it has the one model."""
        if self.state is not None:
            raise WorkloadError(
                "worker.attach was called beside worker.whole_batch: a training function has one whole batch, or attaches models."
            )

    def weights(self) -> dict[str, Tensor]:
        """The parameters and buffers by name."""
        return {} if self.state is None else self.state.job.model.state_dict()

    def _check(self, job: BatchJob, optimizer: torch.optim.Optimizer, copies: int) -> None:
        if self.models.checked:
            raise WorkloadError("worker.whole_batch was called after the first step: call it before training begins.")
        if self.state is not None or self.models.replicas:
            raise WorkloadError(
                "worker.whole_batch was called beside another model: a training function has one whole batch, or attaches models."
            )
        if isinstance(copies, bool) or not isinstance(copies, int) or copies < 1:
            raise WorkloadError(f"worker.whole_batch was given copies={shown(copies)}: give how many may compute one portion, 1 or more.")
        if not callable(job.loss):
            raise WorkloadError(f"worker.whole_batch was given loss={shown(job.loss)}: give a function of a portion's samples.")
        if len(optimizer.param_groups) != 1:
            raise CompositionError(f"The optimizer of a whole batch has {len(optimizer.param_groups)} groups of parameters: give it one.")
        own = {id(each) for each in job.parameters}
        if own != {id(each) for each in job.model.parameters() if each.requires_grad} or len({each.dtype for each in job.parameters}) != 1:
            raise CompositionError(
                "The optimizer of a whole batch has other parameters than the model, or some of another type: give it all that are "
                "trained, and freeze the rest with requires_grad_(False)."
            )

    def _keeping(self) -> PlannedExchange:
        """The exchange whose servers hold the vectors."""
        plan, name = self.models.plan, self.models.plan.strategy.name
        if plan.mesh.cut:
            raise CompositionError(
                "Each worker of this mesh holds a part of the model, and a whole batch needs it whole: take a flat mesh."
            )
        for planned in reversed(plan.exchanges):
            if planned.servers:
                return planned
        raise CompositionError(
            f"The vectors of a whole batch are held by servers, and {name} has none: choose sandblaster, or another system with "
            "servers, or compose pr.Strategy(consistency=pr.consistency.Asynchronous(), topology=pr.topology.Server(2))."
        )


def trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """The parameters of an optimizer that are trained, in its order."""
    if not isinstance(model, nn.Module) or not isinstance(optimizer, torch.optim.Optimizer):
        raise WorkloadError(f"worker.whole_batch was given {shown(model)} and {shown(optimizer)}: give a model and its optimizer.")
    return [each for group in optimizer.param_groups for each in group["params"] if each.requires_grad]


def _take_over(optimizer: torch.optim.Optimizer, state: BatchState, evaluated: Evaluated) -> None:
    """Make `optimizer.step(closure)` a step of all workers."""

    def step(optimizer: torch.optim.Optimizer, closure: Any = None) -> float:
        if not callable(closure):
            raise WorkloadError(
                f"step() of the optimizer of a whole batch was given {shown(closure)}: give what worker.whole_batch returned."
            )
        given = (optimizer, closure)
        for before in step_pre_hooks(optimizer):
            before(optimizer, given, {})
        mark_stepped(optimizer)
        losses: list[float] = []
        evaluated(state, lambda: losses.append(state.run(closure)))
        for after in step_post_hooks(optimizer):
            after(optimizer, given, {})
        return losses[0] if losses else float("nan")

    mark_wrapped_by_scheduler(step)
    optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]
