"""The state of a worker that a resumed run needs to continue its training function where another run was broken off."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from polyrhythm.core import rng
from polyrhythm.core.checkpoints.continuation import Continuation, Part
from polyrhythm.core.checkpoints.fitting import fitting
from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.common_state import CommonState
from polyrhythm.core.protocols.partition import LocalParts, Undivided
from polyrhythm.core.strategy.replica import Replica
from polyrhythm.core.strategy.switched import carry_weights, continue_elsewhere, continue_optimizer
from polyrhythm.core.training.checkpoint_plan import STRATEGY
from polyrhythm.core.training.crew_change import ChangeListeners
from polyrhythm.core.training.loops import DATA, STEP, used_in
from polyrhythm.core.training.numbers import number
from polyrhythm.core.training.other_way import attached_more, other_name, refusal
from polyrhythm.core.training.own_state.inner_parts import beneath
from polyrhythm.core.training.own_state.own_variables import OwnVariables, Variables, multiply
from polyrhythm.core.training.position import DataPosition
from polyrhythm.core.training.step_numbers import StepNumbers
from polyrhythm.core.trees import StateTree, separate
from polyrhythm.errors import CheckpointError, CompositionError, WorkloadError, diverged


class WorkerState:
    """The replicas and tables, random streams, counts and the position in the data of one worker, and objects of the user's.

    A training function is called anew when a run is resumed. On its way to where the broken-off one was it may draw random numbers, and its
    learning-rate schedulers change the optimizer: both are restored when it has come there.
    """

    def __init__(
        self,
        context: WorkerContext,
        replicas: Sequence[Replica],
        tables: Mapping[str, CommonState],
        plan: CheckpointPlan,
        group: Group,
        between: Callable[[], None],
    ) -> None:
        self.context = context
        self.replicas = replicas
        self.tables = tables
        self.numbers = StepNumbers(lambda: [*self.replicas, *self.tables.values()])
        self.override = plan.override
        self._between = between
        self.position = DataPosition(self._step_ended, self._arrive)
        self.samples = 0
        self.batch = 0
        self.metrics: dict[str, float] = {}
        self.kept: dict[str, Any] = {}
        self.newcomer = "" if plan.handed is None else context.port.name
        """The name of a worker that has joined others."""
        self.found = plan.continuation(context.port.name, group.members)
        self.before: StateTree = None if self.found is None else self.found.state
        if self.before is not None:
            self.position.restore(self.before["position"], plan.override, self.newcomer)
            self.numbers.restore({} if self.switched else self.before)
        self.listeners = ChangeListeners()
        self.parts: LocalParts = Undivided()
        self.counts = True
        """True at one of the workers that compute on the same samples."""
        known = None if self.before is None else self.before["variables"]
        self.variables = OwnVariables(known, self._mine, plan.override, self.newcomer)
        self.position.watch = self.variables.moment
        if plan.store is not None or context.crew.changes:
            self.position.begins = self.variables.own.begin

    def hand(self, state: StateTree) -> None:
        """Continue from the state of another worker: what belongs to a worker alone begins anew."""
        self.found, self.before = Continuation(state, changed=True, own=False), state
        self.position.restore(state["position"], self.override, self.newcomer)
        self.numbers.restore(state)

    def _step_ended(self) -> None:
        """All batches that were handed out have been used, in an iteration of a loop or by a step outside of loops."""
        if self.position.under_way:
            self.numbers.ends()
        self._between()

    @property
    def used(self) -> dict[str, StateTree]:
        """By worker that wrote the checkpoint, what it had used of the data; empty where the same workers resume it."""
        positions = {} if self.found is None else self.found.positions
        return {name: used_in(position, [*positions]) for name, position in positions.items()}

    @property
    def joins(self) -> bool:
        """True if this worker joins others, and begins with the state of one of them."""
        return self.found is not None and not self.found.own

    @property
    def incarnation(self) -> tuple[str, ...]:
        """The part of the path of its random streams, if the worker joins others."""
        return self.context.port.incarnation if self.joins else ()

    def report(self, metrics: Mapping[str, float | Tensor], clock: int) -> None:
        """Record `metrics`, unless the broken-off run has recorded them."""
        values = {name: number(f"worker.report got {name} =", value) for name, value in metrics.items()}
        port = self.context.port
        for name, value in values.items():
            if not math.isfinite(value):
                raise diverged(f"{port.name} reports {name} = {value} after step {clock}")
        if not self.position.returning:
            self.metrics |= values
            for replica in self.replicas:
                for local in replica.locals:
                    local.control.reported(values)
            self.context.record(Reported(port.now(), port.name, clock, values, self.context.bytes_sent))

    def drain(self, step: int) -> str:
        """Have all messages of replicas and tables arrive before a checkpoint after `step`; returns why that failed, or an empty text."""
        problems = [each.drain(step) for each in (*self.replicas, *self.tables.values())]
        return next(filter(None, problems), "")

    def export(self) -> StateTree:
        """The state of this worker as a tree, after `drain`."""
        return {
            "replicas": [replica.export() for replica in self.replicas],
            "held": [self.parts.held(replica) for replica in self.replicas],
            "drawn": self.parts.drawn(),
            "counts": self.counts,
            **({"tables": {name: table.export() for name, table in self.tables.items()}} if self.tables else {}),
            "position": self.position.export(),
            "variables": self.variables.seen,
            "kept": {name: kept.state_dict() for name, kept in self.kept.items()},
            "random": rng.export(),
            "streams": self.context.port.export(),
            "samples": self.samples,
            "batch": self.batch,
            "metrics": self.metrics,
            **self.numbers.export(),
        }

    @property
    def switched(self) -> bool:
        """True if the run continues a checkpoint of another strategy."""
        return self.found is not None and self.found.switched

    def _former(self, number: int) -> list[StateTree]:
        """The states of the replica of this number at all workers that wrote the checkpoint."""
        return [] if self.found is None else [state["replicas"][number] for state in self.found.former]

    def expect_replica(self, model: nn.Module) -> None:
        """Raise an error where the state to continue from has no further model, before others are waited for.

        Where another strategy has written it, `model` gets the weights now: the exchange begins with them.
        """
        if self.before is not None and len(self.replicas) >= (known := len(self.before["replicas"])):
            raise refusal(self.newcomer, attached_more(len(self.replicas) + 1, known))
        if self.found is not None and self.found.switched:
            with fitting("model"):
                carry_weights(model, self._former(len(self.replicas)))

    def expect_table(self, name: str) -> None:
        """Raise an error where the state to continue from has no table of this name."""
        if self.before is not None and name not in (known := self.before.get("tables", {})):
            raise refusal(self.newcomer, other_name("table", name, ", ".join(known) or "no table"))

    def resume_replica(self) -> bool:
        """Restore the replica that was attached last from the checkpoint; False if the run is not resumed."""
        if self.before is None:
            return False
        attached = len(self.replicas)
        if self.found is not None and self.found.former and not self.found.switched:
            former = [(state["replicas"][attached - 1], state["held"][attached - 1]) for state in self.found.former]
            with fitting("model or optimizer"):
                self.before["replicas"][attached - 1] = self.parts.relaid(self.replicas[-1], former)
        before = self.before["replicas"][attached - 1]
        self.replicas[-1].options.refuse_others(before["options"], self.override)
        if self.switched:
            with fitting("model or optimizer"):
                continue_elsewhere(self.replicas[-1], before, self._former(attached - 1))
            self._resumed()
        else:
            self._resume(self.replicas[-1], lambda state: state["replicas"][attached - 1])
        others = self.found.former if self.found and not self.switched else ()
        self.parts.draw_on([drawn for state in others or (self.before,) if (drawn := state.get("drawn")) is not None])
        return True

    def resume_table(self, name: str) -> None:
        """Restore the table of this name, which was just opened, from the checkpoint."""
        if self.switched:
            raise CheckpointError(f"The checkpoint has the table {name!r}, which servers hold: it goes on under its own strategy alone.")
        if self.before is not None:
            self._resume(self.tables[name], lambda state: state["tables"][name])

    def _resume(self, each: CommonState, part: Part) -> None:
        found = self.found
        assert found is not None, "the run is resumed"
        with fitting("model or optimizer"):
            found.give(each, part)
        self._resumed()

    def _resumed(self) -> None:
        """Something was restored: the samples count on, and where nothing precedes it, the training function has arrived."""
        found = self.found
        assert found is not None, "the run is resumed"
        self.samples, self.metrics = sum(state["samples"] for state in found.counted), dict(self.before["metrics"])
        if not self.position.returning:
            self._arrive(STEP)

    def keep(self, name: str, kept: Any) -> None:
        """Include the user's object `kept` in checkpoints, and restore it from the one that is resumed."""
        if not callable(getattr(kept, "state_dict", None)) or not callable(getattr(kept, "load_state_dict", None)):
            raise WorkloadError(
                f"worker.keep was given {name}={kept!r}, a {type(kept).__name__}, which has no state_dict() and load_state_dict(): "
                "give an object that has both."
            )
        self.kept[name] = kept
        if self.before is not None:
            self._restore(name)

    def _restore(self, name: str) -> None:
        known = self.before["kept"]
        state = known[name] if name in known else self.variables.recorded(name)
        if state is None:
            raise refusal(self.newcomer, other_name("keep", name, ", ".join(known) or "nothing"))
        with fitting(f"object that worker.keep was given as {name!r}"):
            self.kept[name].load_state_dict(state)

    def keep_values(self, values: Mapping[str, Any]) -> Variables:
        """Values of the user's that continue from those of the checkpoint, or, where it has none, from variables that it recorded."""
        for each, value in values.items():
            try:
                separate({each: value})
            except CompositionError as problem:
                raise WorkloadError(f"worker.variables got {problem}") from None
        own = Variables(dict(values))
        name = f"variables/{sum(isinstance(each, Variables) for each in self.kept.values())}"
        self.kept[name] = own
        if self.before is not None and name not in self.before["kept"]:
            found = {each: self.variables.recorded(each) for each in values}
            self.before["kept"][name] = {each: value for each, value in found.items() if value is not None}
        if self.before is not None:
            self._restore(name)
        return own

    def look(self) -> None:
        """A checkpoint is about to be written: remember the training function's variables as they are here."""
        self.variables.look(self.position.kind, [*self.kept])

    def _mine(self) -> set[int]:
        """The ids of objects that are restored by other means than as the training function's variables."""
        held: list[Any] = [*self.kept.values(), *(each for source in self.position.sources for each in beneath(source))]
        for replica in self.replicas:
            held += [replica.model, replica.optimizer, *replica.model.parameters(), *replica.model.buffers()]
        return set(map(id, held))

    def _refuse_unknown(self) -> None:
        """Raise CheckpointError for a name to override that no setting has."""
        known = {
            DATA,
            STRATEGY,
            *(name for replica in self.replicas for group in replica.options.groups for name in group),
            *self.variables.names,
        }
        if unknown := sorted(self.override - known):
            raise CheckpointError(
                f"override has {unknown[0]!r}, and there is no such setting: it can have {', '.join(sorted(known))}, or nothing."
            )

    def _arrive(self, kind: str) -> None:
        """Restore the state of the broken-off run, whatever the training function has done on the way."""
        found = self.found
        assert found is not None, "the run is resumed"
        if not found.changed:
            self.context.port.restore(self.before["streams"])
        for place, (replica, state) in enumerate(zip(self.replicas, self.before["replicas"], strict=False)):
            if found.switched:
                continue_optimizer(replica, state, self._former(place))
            else:
                replica.restore_again(state)
        for name in self.kept:
            self._restore(name)
        self.variables.arrived(kind)
        for replica, state in zip(self.replicas, self.before["replicas"], strict=False):
            replica.options.override(replica.optimizer, state["options"], self.override)
            if "lr" in self.override:
                schedules = [each for each in (*self.kept.values(), *self.variables.schedules) if isinstance(each, LRScheduler)]
                multiply((each for each in schedules if each.optimizer is replica.optimizer), replica.options.factors(state["options"]))
        self._refuse_unknown()
        if found.own:
            self.batch = self.before["batch"]
            rng.restore(self.before["random"])
