"""A worker as its crew changes it: everything of it that knows the other workers continues among other ones.

`Worker` makes one where its crew may change, and `ChangingCrew` calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.view import ViewChange
from polyrhythm.core.strategy.hand_over import HandOver, Kept
from polyrhythm.core.strategy.residuals import inherit, residuals_kept, send_again, waiting_in
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.change_verdict import NONE
from polyrhythm.core.training.checkpoint_plan import manifest_of
from polyrhythm.core.training.checkpointing import Checkpointing
from polyrhythm.core.training.collectives.call_record import CallRecord
from polyrhythm.core.training.collectives.together import Together
from polyrhythm.core.training.collectives.user_collectives import collectives
from polyrhythm.core.training.crew_change import CrewChange
from polyrhythm.core.training.data.data import Data
from polyrhythm.core.training.models import Models
from polyrhythm.core.training.steps import Steps
from polyrhythm.core.training.worker_state import WorkerState
from polyrhythm.core.trees import StateTree, copied


@dataclass(slots=True)
class Regrouping:
    """The parts of a worker that change with its crew; `place` takes its rank and its groups from the plan of each view."""

    context: WorkerContext
    models: Models
    state: WorkerState
    checkpointing: Checkpointing
    calls: CallRecord
    steps: Steps
    together: Together
    data: Data
    place: Callable[[StrategyPlan], None]

    @property
    def clock(self) -> int:
        """The number of steps that the worker has taken, or is taking."""
        return self.steps.clock

    @property
    def progress(self) -> tuple[int, ...]:
        """The numbers of completed exchanges by model; 0 where each repeats what it has sent, as workers do not act together or sums come
        later than the exchanges that began them. Then the broadcasts and the like, and the last of those sums that has come.

        A worker that joins, and is interrupted before it has attached all models, has none.
        """
        if self.begins:
            return (NONE,)
        if self.models.plan.mesh.cut:
            # nobody has what another needs but for a call: gradients are the same at all that hold a part, before any of them steps
            return (0, self.calls.completed)
        alike = [each for each in self.models.replicas if any(part.local.acts_alike for part in each.parts)]
        late = [[sums.come for part in each.parts if (sums := part.channel.offers.sums) is not None] for each in alike]
        at_once = [each for each, sums in zip(alike, late, strict=True) if len(sums) < len(each.parts)]
        completed = [each.made.completed if each in at_once else 0 for each in self.models.replicas]
        return (*completed, self.calls.completed, *(come for sums in late for come in sums))

    @property
    def completed(self) -> int:
        """The number of steps that the worker has completed."""
        return self.steps.completed

    @property
    def exchanged(self) -> int:
        """The step of the last exchange that the worker has completed; 0 if it has not completed any here."""
        return self.state.numbers.number_of([each.made.last for each in self.models.replicas])

    @property
    def trained(self) -> int:
        """The number of training steps of a model in parts that are complete here, before the optimizer's."""
        return self.state.parts.trained

    @property
    def alike(self) -> bool:
        """True if every exchange has one result, so that a lost worker has used what the others have."""
        return not self.state.tables and all(part.local.acts_alike for replica in self.models.replicas for part in replica.parts)

    @property
    def paced(self) -> bool:
        """True if the workers wait for each other at each step, so that all take equally many."""
        return not self.state.tables and any(part.local.keeps_pace for replica in self.models.replicas for part in replica.parts)

    @property
    def meets(self) -> bool:
        """True if the training function has called a method that waits for all workers, or is in one."""
        return self.calls.under_way or self.calls.completed > 0

    @property
    def used(self) -> StateTree:
        """What the worker has used of the data, and holds for a step that it has not completed."""
        return self.data.used()

    @property
    def gone(self) -> list[str]:
        """The servers that the worker knows to be lost."""
        return self.models.view.lost_servers

    @property
    def begins(self) -> bool:
        """True if the worker joins the run, and has not attached all models and opened all tables yet."""
        models, tables = len(self.models.replicas), len(self.state.tables)
        before = self.state.before
        return self.state.joins and (models < len(before["replicas"]) or tables < len(before.get("tables", ())))

    def look(self) -> None:
        """Remember the training function's variables as they are here."""
        self.state.look()

    def export(self) -> StateTree:
        """The state of the worker, whose tensors the next view does not change."""
        origin = self.checkpointing.plan.origin
        resumed = {"origin": list(origin)} if any(origin) else {}
        exported = {**self.state.export(), "position": self.state.position.export_request(), "calls": self.calls.export(), **resumed}
        return copied(exported)

    def kept_back(self) -> list[Kept]:
        """What each replica has not sent, once the others have completed the exchange that is under way here."""
        replicas = self.models.replicas
        return [
            [(residuals_kept(part.channels, part.local), waiting_in(part.channel, part.local)) for part in each.parts] for each in replicas
        ]

    def rest(self) -> None:
        """Announce to those who would wait for it that the worker takes no further step in this view."""
        for part in (part for replica in self.models.replicas for part in replica.parts):
            if (rest := part.channel.offers.rest) is not None:
                self.context.perform(rest())

    def regroup(self, plan: StrategyPlan, handed: HandOver) -> None:
        """Continue among the workers of `plan`."""
        self.place(plan)
        group, replicas = plan.mesh.world(self.context.port.name), plan.mesh.shares(self.context.port.name)
        if self.begins and not handed.own:
            self.state.hand(handed.state)
        self.models.regroup(plan, replace(handed, ahead=handed.furthest - self.steps.clock))
        for replica, kept in zip(
            self.models.replicas, handed.kept, strict=False
        ):  # a newcomer that was interrupted attaches the others later
            for part, (residuals, waiting) in zip(replica.parts, kept, strict=True):
                inherit(part.channels, residuals)
                send_again(part.channel, part.local, waiting)
        sums = plan.mesh.sums(self.context.port.name)
        self.together.regroup(collectives(plan.strategy, self.context.port, self.models.view), group, sums)
        self.together.lost = plan.mesh.absent
        if plan.mesh.cut:  # lost workers' samples are those of others that have the same
            self.state.parts.regroup(plan.mesh, handed.trained)
        else:
            self.data.regroup(replicas, handed.used, handed.donor)
        if plan.mesh.cut or not handed.own:
            self.calls.take_over(handed.state["calls"])
        self.checkpointing.regroup(group, partial(manifest_of, plan), self.models.follow_losses, handed.furthest)

    def changed(self, change: ViewChange) -> None:
        """Call what the training function has given to `on_change`."""
        self.state.listeners.changed(CrewChange.of(change, self.steps.clock))
