"""A worker's replica: its model and optimizer under a strategy, and its work at `optimizer.step()`.

`worker.attach` makes one (`training.models`); it divides the parameters into parts, and these exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MethodType

import torch
from torch import nn

from polyrhythm.core.collectives.barrier import barrier
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.view import ViewChanged
from polyrhythm.core.protocols.common_state import Donor
from polyrhythm.core.strategy.connecting import connect, others_of
from polyrhythm.core.strategy.division import Share, divided
from polyrhythm.core.strategy.equal_replicas import EqualReplicas
from polyrhythm.core.strategy.fitting_optimizer import refuse_optimizer
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.hand_over import HandOver
from polyrhythm.core.strategy.local_optimizer import LocalOptimizer
from polyrhythm.core.strategy.optimizers.attachable import HeldParameters, refuse_unattachable
from polyrhythm.core.strategy.optimizers.attached_step import attached_step, own_step, refuse_replaced
from polyrhythm.core.strategy.optimizers.optimizer_options import AttachedOptions
from polyrhythm.core.strategy.part import Part
from polyrhythm.core.strategy.part_seat import PartSeat
from polyrhythm.core.strategy.rates import rate_factor
from polyrhythm.core.strategy.same_memory import refuse_same_memory
from polyrhythm.core.strategy.step_exchanges import StepExchanges
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.strategy.unused_state import UnusedState
from polyrhythm.core.strategy.watching.alike import Attached
from polyrhythm.core.strategy.watching.constraints import Constraint, Constraints
from polyrhythm.core.strategy.watching.step_watch import StepWatch
from polyrhythm.core.torch_private.one_process import mark_stepped, mark_wrapped_by_scheduler, take_scale_of_scaler
from polyrhythm.core.trees import StateTree


class Replica:
    """One worker's model and optimizer under a strategy, in `parts`: one for each exchange, and type and device of parameters.

    `number` counts what the worker attached; `clip_norm` is the norm to which gradients are clipped, part by part.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        plan: StrategyPlan,
        context: WorkerContext,
        number: int = 0,
        clip_norm: float | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.constraints = Constraints(model)
        self.plan, self.context = plan, context
        self.group = plan.mesh.replicas(context.port.name)
        self.number = number
        self.clip_norm = clip_norm
        self._clip_next: float | None = None
        self.options = AttachedOptions.of(optimizer)
        shares = divided(model, optimizer, plan)
        self.trained = {id(parameter) for share in shares for _, parameter in share.named}
        self._held = HeldParameters(model, optimizer, self.trained)
        self.others = others_of(model, self.trained)
        refuse_same_memory(model, self.trained)
        self._port = context.port
        self._resumed = self._port.now()
        flats = [Parameters(share.named, share.modules) for share in shares]
        self.watch = StepWatch(optimizer, flats, plan.strategy.shares_memory)
        plain_step = own_step(optimizer, self.watch, context.counted)
        self._divide(shares, [(flat, LocalOptimizer(optimizer, plain_step, flat, clip_norm)) for flat in flats])
        stepped_elsewhere = [part.local.optimizer for part in self.parts if not part.payload.steps_here]
        self.unused = UnusedState(optimizer, stepped_elsewhere, plan.strategy.name)
        self.made = StepExchanges(context, lambda: self.parts, lambda: self.equal.begin_among_others(self.clock))
        self.attached = Attached(model, optimizer, number, clip_norm, self.trained)

    def _divide(self, shares: Sequence[Share], own: Sequence[tuple[Parameters, LocalOptimizer]]) -> None:
        """Make the parts of the replica, each of its parameters and optimizer."""
        self.parts: list[Part] = []
        for share, (parameters, local) in zip(shares, own, strict=True):
            scope = share.planned.scope(self.number, share.kind)
            workers = share.planned.participants.group(self._port.name)
            part = Part(parameters, local, share.planned, PartSeat(self.context, self._port.scoped(scope), scope, workers))
            local.factor = rate_factor(self.plan.batch, part.agreement, self.plan.first, len(self.plan.mesh.members))
            self.parts.append(part)
        self.locals = [part.local for part in self.parts]
        self._controls = [local.control for local in self.locals if local.control.measures]
        self.equal = EqualReplicas(self.model, self.optimizer, self.parts, self.plan.strategy, self.number)

    @property
    def clock(self) -> int:
        """The number of steps that this worker has taken."""
        return self.locals[0].state.clock

    @property
    def overlaps(self) -> bool:
        """True if gradients are exchanged from `backward()` on, and not in `optimizer.step()` alone."""
        return any(part.overlaps for part in self.parts)

    def establish(self, stepping: Callable[[], None], follow: Callable[[], None]) -> None:
        """Start with the weights of the first worker, and make `optimizer.step()` call `stepping`, which calls `step`.

        `follow` is called before the parts exchange anything, and again after a change of the crew meanwhile.
        """
        refuse_unattachable(self.optimizer)
        self.unused.begin()
        refuse_replaced(self.optimizer, len(self.parts) == 1 and self.parts[0].steps_once and not self.plan.strategy.chooses)
        for part in self.parts:
            refuse_optimizer(part)
        begin = self.equal.begin
        while True:
            try:
                follow()
                connect(self.parts, self.attached, self.others, self.plan.strategy.tolerates_loss)
                break
            except ViewChanged as interruption:
                self.made.reform(interruption.change)
                self._place()
                begin = self.equal.begin_among_others
        self._take_over(stepping)
        begin(0)
        self.watch.begin(lambda: self.clock, lambda: any(part.awaits for part in self.parts))
        self._resumed = self._port.now()

    def regroup(self, plan: StrategyPlan, handed: HandOver) -> None:
        """Exchange with the workers of `plan` from now on, and continue from what is `handed` over.

        The optimizer keeps its options: a donor that has completed the step may have gone on with its learning-rate schedule.
        """
        clock, options = self.clock, self.optimizer.state_dict()["param_groups"]
        state = {**handed.state, "optimizer": {**handed.state["optimizer"], "param_groups": options}}
        self.plan = plan
        self._place()
        connect(self.parts, self.attached, self.others, self.plan.strategy.tolerates_loss)
        self.take_over(state, handed.own, handed.left)
        self._set_clock(clock)
        self.equal.begin_among_others(clock)
        for part in self.parts:
            part.await_furthest(clock + handed.ahead)
        if plan.strategy.shares_memory:
            self.wait_for_memory()

    def wait_for_memory(self) -> None:
        """Wait until every worker has restored the weights that they share: a step before that would be overwritten."""
        self.context.perform(barrier(self.parts[0].port, self.group))

    def _place(self) -> None:
        """Make the parts anew, for the workers of the present plan."""
        self.group = self.plan.mesh.replicas(self.context.port.name)
        self.equal.close()
        for part in self.parts:
            part.close()
        before = self.locals
        self._divide(divided(self.model, self.optimizer, self.plan), [(local.parameters, local.optimizer) for local in before])
        for now, then in zip(self.locals, before, strict=True):
            now.succeed(then)

    def _set_clock(self, clock: int) -> None:
        for local in self.locals:
            local.state.clock = clock

    def _take_over(self, stepping: Callable[[], None]) -> None:
        step = attached_step(self.optimizer, self.watch, stepping, self.settle)
        mark_wrapped_by_scheduler(step)  # it notifies schedulers itself
        self.optimizer.step = MethodType(step, self.optimizer)  # type: ignore[method-assign]
        take_scale_of_scaler(self.optimizer)  # and refuse it, with a reason

    def clip(self, norm: float) -> None:
        """Clip the gradient of the next step to `norm`, in place of the norm that was given at attaching."""
        self._clip_next = norm

    def step(self, samples: int) -> None:
        """Take one step of this worker: it was computed on `samples`, and is now exchanged and merged as the strategy defines."""
        computed = self._port.now() - self._resumed
        self._refuse_changes()
        norm, self._clip_next = (self.clip_norm if self._clip_next is None else self._clip_next), None
        for part in self.parts:
            part.local.optimizer.clip_norm = norm
            part.local.state.samples += samples
            part.refuse_changes()
        compares = self.equal.compares(self.clock + 1)
        self.made.complete(self.made.computed())
        for control in self._controls:
            control.stepped(self.clock, computed, samples)
        for local in self.locals:
            local.writes.note()
        if compares:
            self.equal.compared()
        self.equal.note_rates([local.taken_rates for local in self.locals])
        if self.unused.optimizers:
            self.unused.note()
        if self.constraints.functions:
            self.settle()
            self.context.counted(partial(self.constraints.apply, self.locals))
        self._resumed = self._port.now()

    def constrain(self, function: Constraint) -> None:
        """Apply `function` to the model now, and after every update of its weights. Raises CompositionError where servers hold these."""
        self.settle()
        self.constraints.add(function, self.locals, self.plan.strategy.name)
        self.watch.restart()

    @property
    def rests(self) -> bool:
        """True if this worker skips its next step."""
        return any(part.rests for part in self.parts)

    def pass_over(self) -> None:
        """Skip the next step, and take over the weights that the one after it needs."""
        for local in self.locals:
            local.take_writes()
        self.made.complete([(part, pending) for part in self.parts if (pending := part.pass_over()) is not None])
        for local in self.locals:
            local.writes.note()
        self._resumed = self._port.now()

    def _refuse_changes(self) -> None:
        """Raise an error for changes by the user since the last step that would leave some weights, or a state, out of the exchange."""
        self._held.refuse_changes(self.clock)
        for local in self.locals:
            if not local.parameters.in_place:
                raise local.parameters.moved()
        if self.watch.outside is not None:
            self.watch.refuse_step()
        if self.unused.optimizers:
            self.unused.refuse_written()

    def drain(self, step: int) -> str:
        """Drain every part (`Channel.drain`). Returns the first error as a sentence, else ""."""
        return next(filter(None, [part.drain(step) for part in self.parts]), "")

    def export(self) -> StateTree:
        return {
            "parts": [part.export() for part in self.parts],
            "others": self.others,
            "optimizer": self.optimizer.state_dict(),
            "options": self.options.export(),
            "exchanges": self.made.completed,
        }

    def restore(self, state: StateTree) -> None:
        self._continue(state, [part.restore for part in self.parts])
        self.equal.begin(self.clock)

    def take_over(self, state: StateTree, own: bool, left: Sequence[StateTree] = (), donor: Donor | None = None) -> None:
        """Continue from a state that was exported among other workers, and send what those that have `left` did not send."""

        def taking(k: int) -> Callable[[StateTree], None]:
            rest = [each["parts"][k] for each in left]
            return partial(self.parts[k].take_over, own=own, left=rest, donor=None if donor is None else lambda: donor()["parts"][k])

        self._continue(state, [taking(k) for k in range(len(self.parts))])
        self.equal.begin_among_others(self.clock)

    def _continue(self, state: StateTree, continued: list[Callable[[StateTree], None]]) -> None:
        with torch.no_grad():
            for part, exported in zip(continued, state["parts"], strict=True):
                part(exported)
            for tensor, value in zip(self.others, state["others"], strict=True):
                tensor.copy_(value)
        self._restore_optimizer(state)
        self.made.completed = state["exchanges"]
        self.watch.restart()

    def restore_again(self, state: StateTree) -> None:
        """Restore weights and the optimizer, which the training function or a learning-rate scheduler may have changed since `restore`."""
        with torch.no_grad():
            for part, exported in zip(self.parts, state["parts"], strict=True):
                part.local.restore_weights(exported)
        self._restore_optimizer(state)
        self.watch.restart()
        self.equal.begin(self.clock)

    def _restore_optimizer(self, state: StateTree) -> None:
        self.unused.restore(state["optimizer"])
        mark_stepped(self.optimizer)  # before a scheduler catches up

    def settle(self) -> None:
        """Take all steps that wait for the next forward pass; called between steps."""
        for part in self.parts:
            part.settle()

    def finish(self) -> None:
        """End the run: afterwards the model holds the final weights."""
        self.equal.end()
        self.context.stopped(self.clock)
        self.watch.close()
        self._held.refuse_other_model()
        for part in self.parts:
            part.finish()
        self.unused.close()
        self.constraints.apply(self.locals)
        for part in self.parts:
            part.end_alike()
