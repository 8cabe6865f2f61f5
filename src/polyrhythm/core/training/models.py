"""The models that a training function has attached, each with its optimizer and its own replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import ViewChange
from polyrhythm.core.protocols.buffers import Keeper
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.losses import GONE
from polyrhythm.core.protocols.partition import follows_owner, part_of
from polyrhythm.core.settings import shown
from polyrhythm.core.strategy.averaging import TOPIC, average
from polyrhythm.core.strategy.current_view import CurrentView
from polyrhythm.core.strategy.hand_over import HandOver
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.strategy.same_memory import seen_elsewhere
from polyrhythm.core.strategy.service import announce, dismiss, dismiss_all
from polyrhythm.core.strategy.snapshots import TOPIC as SNAPSHOTS
from polyrhythm.core.strategy.step_exchanges import cannot_reform
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.strategy.watching.constraints import Constraint
from polyrhythm.core.strategy.watching.gradient_watch import GradientWatch
from polyrhythm.core.training.callers import warn_user
from polyrhythm.core.training.evaluation import Evaluation
from polyrhythm.core.training.loops import DataFacts
from polyrhythm.errors import AliasWarning, CompositionError, WorkloadError

_SHOWN = 3


class Models:
    """`replicas` in the order of attaching; the first has no scope, so that a single model's topics have no prefix."""

    def __init__(self, plan: StrategyPlan, context: WorkerContext, began: float = 0.0) -> None:
        self.plan = plan
        self.strategy = plan.strategy
        self.chooses = plan.strategy.chooses
        self.group = plan.mesh.replicas(context.port.name)
        self.context = context
        self.replicas: list[Replica] = []
        self.names: dict[int, str] = {}
        self.modules: dict[int, nn.Module] = {}
        self.keepers: dict[int, Keeper] = {}
        self.view = CurrentView(context.port, plan.mesh, plan.servers, plan.lost)
        self.checked = False
        self.gradients = GradientWatch()
        self.evaluation = Evaluation(plan, context, began=began)
        self.weight: Callable[[], float] = lambda: 1.0
        """Gives the weight of the batch that was drawn last."""
        self.finished: list[Callable[[], None]] = []
        """Called when the models have their final weights."""
        self.regrouped: list[Callable[[HandOver], None]] = []
        """What continues in the next view, in the order in which the training function has attached models and opened tables."""
        self.attaching: Replica | None = None
        """The replica that is being established."""
        self.reform: Callable[[ViewChange], bool] = cannot_reform
        """Goes into the next view with all models, when an exchange of one is interrupted."""

    def attach(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        clip_norm: float | None,
        name: str | None,
        step: Callable[[Replica], None],
    ) -> None:
        """Establish a replica of `model`; `optimizer.step()` calls `step` from then on."""
        if self.checked:
            raise WorkloadError("worker.attach was called after the first step: attach every model and optimizer before training begins.")
        number = len(self.replicas)
        self._refuse_again(model, optimizer, name)
        aliased = seen_elsewhere(model) if id(model) not in self.modules else []
        replica = Replica(model, optimizer, self.plan, self.context, number, clip_norm)
        if aliased:
            warn_user(_aliases(aliased), AliasWarning)
        replica.made.reform = self.reform
        self.attaching = replica
        replica.establish(partial(step, replica), partial(self._follow, replica, number))
        self.attaching = None
        self.replicas.append(replica)
        self.context.follow(model, self._alone())
        self.regrouped.append(partial(self._regroup, replica, number))
        self.evaluation.follow(replica)
        self.gradients.attached(replica.watch)
        if id(model) not in self.modules:
            self.modules[id(model)] = model
            self.names[id(model)] = name if name is not None else str(number)
            self.keepers[id(model)] = self.strategy.buffers.keeper(model)

    def _alone(self) -> str:
        """Why the gradients of virtual workers cannot be computed together; "" where they can."""
        if self.strategy.shares_memory:
            return "its workers share the memory of their weights"
        return "its workers skip steps whose gradients were computed" if self.chooses else ""

    def regroup(self, plan: StrategyPlan, handed: HandOver) -> None:
        """Exchange with the workers of `plan` from now on, and continue from what is `handed` over."""
        self.plan, self.group = plan, plan.mesh.replicas(self.context.port.name)
        self.view = CurrentView(self.context.port, plan.mesh, plan.servers, plan.lost)
        if self.attaching is not None:
            self.attaching.plan = plan
        for regroup in self.regrouped:
            regroup(handed)
        self.evaluation.regroup(plan, self.replicas)

    def _regroup(self, replica: Replica, number: int, handed: HandOver) -> None:
        self._follow(replica, number)
        replica.regroup(self.plan, handed.of_replica(number))

    def _refuse_again(self, model: nn.Module, optimizer: torch.optim.Optimizer, name: str | None) -> None:
        held = {each for replica in self.replicas for each in replica.trained}
        twice = [each for group in optimizer.param_groups for each in group["params"] if id(each) in held]
        if twice:
            raise WorkloadError(
                f"worker.attach was given {len(twice)} parameters a second time: put each parameter into one optimizer only, "
                "and attach each optimizer once."
            )
        if name is not None and name in self.names.values() and self.names.get(id(model)) != name:
            raise WorkloadError(f"worker.attach was given the name {name!r} twice: give each model a different name.")

    def _follow(self, replica: Replica, number: int) -> None:
        """Subscribe the parts of the replica of that `number` to losses, and announce them to servers that do not expect them."""
        for part in replica.parts:
            self._hear_of_losses([part.scope + nested for nested in part.planned.plan.scopes], number)
            if part.scope != part.planned.scope(0, 0) and self.group.is_first:
                self.context.perform(announce(self.context.port, part.scope, part.planned.servers))

    def _hear_of_losses(self, scopes: Sequence[str], number: int) -> None:
        if number == 0 and self.group.is_first:
            if self.strategy.buffers.averaged:
                self.follow_losses(TOPIC)
            self.follow_losses(SNAPSHOTS)
        for scope in scopes:
            self.follow_losses(scope + GONE)

    @property
    def measures(self) -> bool:
        return False

    def value(self, setting: ControlledSetting, composed: float, receiver: str = "") -> float:
        """The value that the first exchange with a decision about `setting` uses; `composed` where none has decided."""
        for replica in self.replicas:
            for part in replica.parts:
                if (found := part.local.control.value(setting, composed, receiver)) != composed:
                    return found
        return composed

    def leaves(self, receiver: str, nbytes: int) -> None:
        """Nothing to do: transfers of samples are not measured."""

    def sent(self, receiver: str, nbytes: int, seconds: float) -> None:
        """Nothing to do: transfers of samples are not measured."""

    def follow_losses(self, topic: str) -> None:
        """Subscribe `topic` to notices of lost actors, where the run can continue without one."""
        if (self.strategy.tolerates_loss and self.group.size > 1) or self.strategy.tolerates_server_loss:
            self.context.perform(self.view.begin())
            self.context.perform(self.view.subscribe(topic))

    def check(self) -> None:
        """At the first step: refuse a trainable parameter that would stay as it is, different at every worker."""
        if self.checked:
            return
        self.checked = True
        self.evaluation.agree()
        held = {id(each) for replica in self.replicas for group in replica.optimizer.param_groups for each in group["params"]}
        every = [(name, each) for model in self.modules.values() for name, each in model.named_parameters() if not follows_owner(each)]
        left = [name for name, each in every if each.requires_grad and id(each) not in held]
        if left:
            shown = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
            raise CompositionError(
                f"No attached optimizer has {shown}, which would not be trained or exchanged: attach that "
                "optimizer too (call worker.attach once for each), or freeze with requires_grad_(False)."
            )

    def constrain(self, function: Constraint, model: nn.Module | None) -> None:
        """Call `function` after every update of `model`, or of the only model, for a call of `Worker.constrain`."""
        if not callable(function):
            raise WorkloadError(f"worker.constrain was given {shown(function)}, which is not callable: give a function of the model.")
        if model is None and len(self.modules) != 1:
            raise WorkloadError(
                f"worker.constrain was called with {len(self.modules)} attached models: "
                + ("name the one, worker.constrain(function, model=critic)." if self.modules else "call worker.attach first.")
            )
        replicas = [replica for replica in self.replicas if model is None or replica.model is model]
        if not replicas:
            raise WorkloadError(f"worker.constrain was given a {type(model).__name__} that is not attached: give a model that is.")
        for replica in replicas:
            replica.constrain(function)

    def finish(self, stepped: bool) -> dict[str, float]:
        """Finish every replica, settle the buffers, and evaluate; returns the metrics of the final weights.

        `stepped` is True if the worker has taken a step of a model or a table.
        """
        for replica in self.replicas:
            replica.watch.refuse_end()
        self.gradients.refuse_end(stepped)
        self.evaluation.agree()  # a worker that took no step has not agreed yet, and the others wait for it
        for replica in self.replicas:
            replica.finish()
        for follow in self.finished:
            follow()
        if self.group.is_first:
            self._dismiss_unused()
        self.evaluation.look()  # before the buffers are settled
        for keeper in self.keepers.values():
            keeper.renew()
        if self.strategy.buffers.averaged and self.plan.mesh.shares(self.context.port.name).size > 1:
            self._average_buffers()
        return self.evaluation.finish()

    def _dismiss_unused(self) -> None:
        """Dismiss servers that wait for the first model, where none was attached, or none of its parameters are theirs."""
        if not self.replicas and len(self.plan.exchanges) == 1:
            self.context.perform(dismiss_all(self.context.port, self.plan.servers))
            return
        if self.plan.idle:
            self.context.perform(dismiss(self.context.port, self.plan.idle))
        used = {part.scope for replica in self.replicas[:1] for part in replica.parts}
        for planned in self.plan.exchanges:
            if planned.servers and planned.scope(0, 0) not in used:
                self.context.perform(dismiss(self.context.port, planned.servers))

    def _average_buffers(self) -> None:
        own = [b for model in self.modules.values() for b in model.buffers() if b.is_floating_point() and b.numel()]
        name, mesh, port = self.context.port.name, self.plan.mesh, self.context.port
        if mesh.unequal is None:
            self._average(own, mesh.here(mesh.shares(name)), port)
            return
        for number in mesh.parts_of(name):
            part = mesh.parts[number]
            group = replace(part, rank=part.members.index(name))
            self._average([buffer for buffer in own if part_of(buffer) == number], group, port.scoped(f"part{number}/"))

    def _average(self, buffers: Sequence[Tensor], group: Group, port: Port) -> None:
        if buffers:
            values = [buffer.detach().cpu().contiguous().clone() for buffer in buffers]
            for buffer, mean in zip(buffers, self.context.perform(average(port, group, values)), strict=True):
                with torch.no_grad():
                    buffer.copy_(mean)

    def batch(self, facts: DataFacts, first: bool) -> Callable[[], None]:
        """A batch is drawn. Returns a check for the next draw, which raises WorkloadError if this batch was trained on without a step."""
        for replica in self.replicas:
            replica.equal.batch(facts.samples, first)
            for local in replica.locals:
                local.weight = self.weight()
        self.gradients.look()
        before = [(replica.watch, replica.watch.look()) for replica in self.replicas]

        def check() -> None:
            self.gradients.look()
            for watch, glance in before:
                watch.refuse_batch(glance)

        return check

    def shown(self) -> None:
        """The training function reports or counts: check for a missing step, as `batch` does, where it makes its own batches."""
        self.gradients.look()
        for replica in self.replicas:
            replica.watch.refuse_shown()

    def weights(self) -> dict[str, Tensor]:
        """The parameters and buffers by name; with the model's name before it where there are several."""
        several = len(self.modules) > 1
        return {
            f"{self.names[key]}.{name}" if several else name: tensor
            for key, model in self.modules.items()
            for name, tensor in model.state_dict(keep_vars=True).items()
        }


def _aliases(names: Sequence[str]) -> str:
    further = f" and of {len(names) - 1} more parameters" if names[1:] else ""
    return (
        f"Another tensor has the memory of {names[0]}{further}, such as one of state_dict(), detach() or numpy(): worker.attach gives "
        "parameters memory of their own, so it keeps the numbers of now. If it is to follow the training, make it after worker.attach; if "
        "not, delete it or make a copy (`.clone()`)."
    )
