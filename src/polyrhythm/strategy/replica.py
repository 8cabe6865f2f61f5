"""A worker's replica: what happens at `optimizer.step()`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError, diverged
from polyrhythm.kernel.events import Merged
from polyrhythm.kernel.group import Group, servers
from polyrhythm.kernel.job import WorkerContext
from polyrhythm.kernel.port import Port
from polyrhythm.model.remote_optimizer import describe
from polyrhythm.model.state import ModelState
from polyrhythm.pieces.responses import Response
from polyrhythm.pieces.topology import InitialState, WorkerEndpoint
from polyrhythm.pieces.traits import Pattern, Payload
from polyrhythm.strategy.alike import begin_alike
from polyrhythm.strategy.drift import end_alike
from polyrhythm.strategy.gradients import Parameters
from polyrhythm.strategy.overlap import Overlap
from polyrhythm.strategy.rates import at, refuse_unscaled
from polyrhythm.strategy.snapshots import new_snapshots
from polyrhythm.strategy.strategy import Strategy
from polyrhythm.topology.algorithms.broadcast import broadcast, tell


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a replica stands: its group, its worker's context, and a port with topics of its own."""

    group: Group
    context: WorkerContext
    port: Port


class Replica:
    """One worker's model and optimizer under a strategy. `clock` counts its steps."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, strategy: Strategy, seat: Seat) -> None:
        self.model = model
        self.optimizer = optimizer
        self.agreement = strategy.agreement
        self.context = seat.context
        self.port = seat.port
        self.group = group = seat.group
        self.clock = 0
        self.clip_norm: float | None = None
        self.parameters = Parameters(model, optimizer)
        self.plain_step: Callable[[], Any] = optimizer.step
        gradients = self.agreement.payload is Payload.GRADIENT
        served = strategy.topology.pattern is Pattern.SERVED
        self.hosted = gradients and served and self.agreement.merge.rule is None
        self.takes_one_rate = gradients and self.agreement.merge.rule is not None
        self.lent: list[dict[str, Any]] = []
        optimize = self._optimize if gradients else None
        self.model_state = ModelState(
            self.parameters.flat, self.parameters.layout, self.agreement.merge, group.size, optimize, self._step_scaled
        )
        if self.agreement.payload is Payload.UPDATE:
            self.model_state.set_anchor()
        self.steps_locally = not gradients
        self.says_last = self.agreement.payload is Payload.UPDATE or (self.steps_locally and served)
        self.clips_own = self.steps_locally or served
        self.ends_alike = strategy.ends_alike
        endpoint = WorkerEndpoint(group, servers(strategy.topology.servers(group.size)), self.port)
        self.channel = strategy.topology.channel(self.agreement, endpoint)
        self.overlap: Overlap | None = None
        self.snapshots = new_snapshots(strategy, group.size)

    def look(self) -> None:
        """What the workers agreed on last is about to change, or may be: let the snapshots have it."""
        self.snapshots.look(self.port.now(), self.model_state.anchor)

    def establish(self, stepping: Callable[[], None]) -> None:
        """Begin with the weights of worker 0, and put `stepping`, which calls `step`, behind `optimizer.step()`."""
        _refuse_closures(self.optimizer)
        refuse_unscaled(self.optimizer, self.agreement, self.group.size)
        begin_alike(self.context, self.model, self.optimizer, self.parameters.names.keys())
        recipe = describe(self.optimizer, self.parameters.names) if self.hosted else ""
        self.lent = self._options()
        self.rates()
        self.context.perform(self.channel.establish(InitialState(self.model_state, recipe))).apply(self.model_state)
        if self.parameters.others and self.group.size > 1:
            bring = tell if self.agreement.consistency.tolerates_loss else broadcast
            told = bring(self.port, self.group, self.parameters.tell_others(), "others")
            self.parameters.hear_others(self.context.perform(told))
        if self.channel.buckets is not None:
            self.overlap = Overlap(self.parameters, self.channel.buckets, self.context, self._refuse_early)
        self._take_over(stepping)

    def _take_over(self, stepping: Callable[[], None]) -> None:
        def step(optimizer: torch.optim.Optimizer, closure: Callable[[], Any] | None = None) -> None:
            if closure is not None:
                raise CompositionError(
                    "optimizer.step(closure) evaluates the model several times a step, which no exchange can follow: call step()."
                )
            if getattr(optimizer, "grad_scale", None) is not None or getattr(optimizer, "found_inf", None) is not None:
                raise CompositionError(
                    "GradScaler lets each worker decide alone whether to step, so workers would lose each other: use torch.autocast with "
                    "bfloat16, which needs no scaler."
                )
            optimizer._opt_called = True  # type: ignore[attr-defined]
            stepping()

        # Learning-rate schedulers wrap step() to see that it was called, and warn when it is replaced; ours tells them itself.
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        self.optimizer.step = MethodType(step, self.optimizer)  # type: ignore[method-assign]
        # A GradScaler then hands its scale to step() instead of deciding by itself; step() can refuse with a reason.
        self.optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]

    def step(self) -> None:
        """One step of this worker: computed already, now sent, heard and merged as the strategy has it."""
        self.parameters.check()
        if self.overlap is not None:
            self.overlap.refuse_changes()
            self.overlap.begin_rest()
        self.clock += 1
        if self.clips_own:
            self._clip()
        if self.steps_locally:
            self.plain_step()
            if self.agreement.consistency.speaks(self.clock):
                self._exchange(self._said())
        elif self.overlap is not None:
            self._settle(self.context.perform(self.overlap.buckets.conclude(self.rates())))
        else:
            self._exchange_gradient()

    def _said(self) -> Tensor:
        return self.model_state.moved() if self.agreement.payload is Payload.UPDATE else self.model_state.weights

    def _refuse_infinite(self, parts: Sequence[Tensor], step: int) -> None:
        if not math.isfinite(torch.stack([part.sum() for part in parts]).sum().item()):
            raise diverged(f"The {self.agreement.payload.value} of {self.port.name} are not finite at step {step}")

    def _refuse_early(self, value: Tensor) -> None:
        """Of the step that `backward()` prepares."""
        self._refuse_infinite([value], self.clock + 1)

    def _exchange_gradient(self) -> None:
        if self.channel.in_place is None:
            self._exchange(self.parameters.gradient())
        else:
            parts = self.parameters.parts()
            self._refuse_infinite(parts, self.clock)
            response = self.context.perform(self.channel.in_place.exchange_parts(parts))
            self.parameters.drop_nothing()
            self._settle(response)

    def _exchange(self, value: Tensor) -> None:
        self._refuse_infinite([value], self.clock)
        self._settle(self.context.perform(self.channel.exchange(value.cpu(), self.clock, self.rates())))

    def _settle(self, response: Response) -> None:
        port, late = self.port, [each.staleness for each in response.contributions]
        self.look()
        began = port.now()
        response.apply(self.model_state)
        if len(late) > 1:  # one is the worker's own, or a sum that was made on the way
            self.context.charge_merge(len(late) - 1)
            self.context.record(Merged(port.now(), port.name, self.model_state.version, late, port.now() - began))

    def rates(self) -> tuple[float, ...]:
        """The learning rates of the optimizer's groups, as its scheduler has them now; nothing else of them travels."""
        rates = tuple(float(group["lr"]) for group in self.optimizer.param_groups)
        if self.hosted and self._options() != self.lent:
            raise CompositionError(
                f"The options of {type(self.optimizer).__name__} changed since worker.attach, and the server that runs it is told "
                f"of learning rates only: keep the others as they are (a scheduler that cycles momentum takes cycle_momentum=False)."
            )
        if self.takes_one_rate and len(set(rates)) > 1:
            raise CompositionError(
                f"{self.agreement.merge!r} steps with one learning rate, and the optimizer's groups have {', '.join(map(str, rates))}: "
                f"give all groups the same, or use a system that runs your own optimizer (softsync, ssp, allreduce, …)."
            )
        return rates

    def _options(self) -> list[dict[str, Any]]:
        keys = self.optimizer.defaults.keys() - {"lr"}
        return [{key: group[key] for key in keys} for group in self.optimizer.param_groups] if self.hosted else []

    def _optimize(self, gradient: Tensor, rates: tuple[float, ...]) -> None:
        self.parameters.put_gradient(gradient)
        self._take_step(rates)

    def _step_scaled(self, scale: float) -> None:
        self._take_step(tuple(rate * scale for rate in self.rates()))

    def _take_step(self, rates: tuple[float, ...]) -> None:
        if not self.clips_own:
            self._clip()
        with at(self.optimizer, rates):
            self.plain_step()

    def _clip(self) -> None:
        if self.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters.parameters, self.clip_norm)

    def finish(self) -> None:
        """Bring the run to its end: afterwards the model holds the final weights."""
        self.context.stopped(self.clock)
        if self.overlap is not None:
            self.overlap.close()
            if self.overlap.under_way:  # a backward() without a step: the others have begun it too, and nobody takes the response
                self.overlap.begin_rest()
                self.context.perform(self.overlap.buckets.conclude(self.rates()))
        if self.says_last and self.clock and not self.agreement.consistency.speaks(self.clock):
            self._exchange(self._said())
        self._settle(self.context.perform(self.channel.finish()))
        if self.ends_alike:
            end_alike(self.context, self.group, self.parameters.layout, self.model_state.weights, self.clock)


def _refuse_closures(optimizer: torch.optim.Optimizer) -> None:
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise CompositionError(
            f"{type(optimizer).__name__} evaluates the model several times a step, which no exchange can follow: use an optimizer whose "
            f"step() needs no closure, such as SGD or AdamW."
        )
