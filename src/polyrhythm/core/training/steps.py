"""The steps of one worker, which `optimizer.step()` and the `clock()` of a table take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.common_state import CommonState
from polyrhythm.core.training.data.data import Data
from polyrhythm.core.training.models import Models
from polyrhythm.core.training.worker_state import WorkerState
from polyrhythm.errors import WorkloadError


class Steps:
    """Takes and counts the steps of all models and tables of a worker.

    `drawn` are the batches since the last step, which are counted where a strategy has workers skip steps.
    """

    def __init__(self, context: WorkerContext, models: Models, tables: Mapping[str, CommonState], state: WorkerState) -> None:
        self.context = context
        self.models = models
        self.tables = tables
        self.state = state
        self.data: Data
        self.complete: Callable[[], None] = lambda: None
        """Called when a step begins, before its gradients are used."""
        self.taken: Callable[[], None] = lambda: None
        """Called when a step has been taken."""
        self.drawn = 0
        self.finished = False
        self.completed = 0
        """The number of steps that the worker has completed, as `clock` counts them."""
        state.position.passed_over = self.passed_over

    @property
    def held(self) -> Sequence[CommonState]:
        """The state that the worker shares with others: models, tables."""
        return [*self.models.replicas, *self.tables.values()]

    @property
    def clock(self) -> int:
        """Steps that this worker has taken, as `StepNumbers` counts those of several models or tables."""
        return self.state.numbers.clock

    def train(self, each: CommonState) -> None:
        """Take one step of a model, whose gradient should come from samples of this worker's."""
        if not self.models.checked:
            self.refuse_if_finished()
            self.models.check()
        if not self.data.touched:
            self.data.warn_if_unused()
        self.models.gradients.look()
        self.take(each)
        self.models.gradients.stepped()

    def evaluated(self, each: CommonState, evaluate: Callable[[], None]) -> None:
        """Take one step whose computations are made, charged and counted in `evaluate`."""
        models, position = self.models, self.state.position
        if self.finished:
            self.refuse_if_finished()
        if not models.checked:
            models.check()
        if position.returning:
            position.refuse_steps_before_arrival()
        if models.evaluation.function is not None:
            models.evaluation.look()
        self.context.uncounted(evaluate)
        self._complete(each)

    def _complete(self, each: CommonState) -> None:
        """The step was computed: exchange it, and count it."""
        samples, self.state.batch = self.state.batch, 0
        if not self.state.position.under_way:
            self.state.numbers.begins(each)
        self.context.uncounted(partial(each.step, samples))
        self.taken()
        self.note(samples)
        self.state.position.stepped()

    def note(self, samples: int) -> None:
        """Count a step that was taken on `samples`, and record it."""
        self.state.samples += samples
        self._stepped()

    def take(self, each: CommonState) -> None:
        """Take one step of a model or a table."""
        models, position = self.models, self.state.position
        if self.finished:
            self.refuse_if_finished()
        if not models.checked:
            models.check()
        self.complete()
        if position.spare:
            self._discard()  # the batch was yielded for the loop alone
            return
        if position.returning:
            position.refuse_steps_before_arrival()
        if self.drawn > 1:
            self._refuse_accumulation()
        self.drawn = 0
        if models.chooses and any(replica.rests for replica in models.replicas):
            self._discard()
            self._pass_over()
            return
        self.context.charge(self.state.batch)
        if models.evaluation.function is not None:
            models.evaluation.look()
        self._complete(each)

    def passed_over(self) -> bool:
        """Skip the step of a batch that was drawn, if the strategy has this worker rest; True if it was skipped."""
        if not self.models.chooses:
            return False
        self.models.check()
        if any(replica.rests for replica in self.models.replicas):
            self._pass_over()
            return True
        self.drawn += 1
        return False

    def _discard(self) -> None:
        self.state.batch = 0
        self.context.discard()

    def _pass_over(self) -> None:
        self._refuse_unequal_steps()
        for replica in self.models.replicas:
            replica.pass_over()
        self._stepped()

    def _stepped(self) -> None:
        context, evaluation = self.context, self.models.evaluation
        port, clock = context.port, self.clock
        self.completed = clock
        context.record(Stepped(port.now(), port.name, clock, self.state.samples, context.bytes_sent))
        if evaluation.function is not None:
            evaluation.stepped(clock)

    def _refuse_unequal_steps(self) -> None:
        if len(taken := {replica.clock for replica in self.models.replicas}) > 1:
            raise WorkloadError(
                f"Models of one training function have taken {' and '.join(map(str, sorted(taken)))} steps, and under "
                f"{self.models.strategy.name} workers pass steps of all of them over together: let each step after every batch, or take a "
                "fraction of 1."
            )

    def _refuse_accumulation(self) -> None:
        raise WorkloadError(
            f"A step was taken on {self.drawn} batches, and under {self.models.strategy.name} workers pass steps over, each with its "
            "batch: step after every batch (with a larger batch_size), or take a fraction of 1."
        )

    def count(self, samples: int) -> None:
        """Count `samples` as used by the next step."""
        self.state.batch += samples
        self.data.touched = True

    def refuse_if_finished(self, call: str = "optimizer.step() or a table's clock()", remedy: str = "take all steps before it") -> None:
        """Raise WorkloadError after `Worker.finish`."""
        if self.finished:
            raise WorkloadError(f"{call} was called after worker.finish(): the run is over; {remedy}.")
