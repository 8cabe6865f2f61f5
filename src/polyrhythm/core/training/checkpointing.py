"""One worker's part in writing checkpoints: all workers stop after the same step, let all messages arrive, write, and continue."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from polyrhythm.core.checkpoints.manifest import Manifest
from polyrhythm.core.checkpoints.plan import CheckpointPlan
from polyrhythm.core.checkpoints.restarts import RestartCount
from polyrhythm.core.kernel.events import Saved
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import ASIDE, Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.training.checkpoint_costs import CheckpointCosts
from polyrhythm.core.training.position import DataPosition
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CheckpointError, RecordWarning, WorkloadError

_VOTES, _VERDICTS = ASIDE + "checkpoint", ASIDE + "verdict"


ManifestOf = Callable[[int, float, CheckpointPlan], Manifest]
"""Makes the manifest of a checkpoint after a step, at so many seconds of the run, which writes by this plan."""


class Stage(IntEnum):
    """The stage of a checkpoint that a worker reports to worker 0."""

    READY = 0
    """It has come to the step."""
    WRITTEN = 1
    """Its part is written; the text of the message is why it could not be."""
    ENDED = 2
    """It takes no more steps."""


class Verdict(IntEnum):
    """The response of worker 0 when all workers have reported a stage."""

    GO_ON = 0
    """Continue to the next stage; a text is the reason why the checkpoint was not kept."""
    NO_MORE = 1
    """No checkpoint can be complete any more, because a worker has ended or is lost."""


class Vote(NamedTuple):
    """A worker's message to worker 0."""

    stage: Stage
    step: int
    problem: str = ""


class Coordinator:
    """Runs next to worker 0: waits until all workers have reported a stage, and lets them continue."""

    def __init__(self, port: Port, group: Group, plan: CheckpointPlan, commit: Callable[[int], str], costs: CheckpointCosts) -> None:
        assert plan.store is not None, "else no checkpoint is written"
        self.port = port
        self.group = group
        self.commit = commit
        self.discard = plan.store.discard
        self.moments = plan.moments
        self.costs = costs
        self.next: tuple[float, ...] = ()
        self.votes: dict[str, Vote] = {}

    async def live(self) -> None:
        """Receive votes until no checkpoint can be complete any more."""
        while True:
            delivery = await self.port.receive(_VOTES)
            assert delivery is not None
            if not delivery.message.numbers:  # the notice of a loss
                break
            stage, step = map(int, delivery.message.numbers)
            if stage == Stage.ENDED:
                break
            self.votes[delivery.sender] = Vote(Stage(stage), step, delivery.message.text)
            if len(self.votes) == self.group.size:
                await self._respond(Verdict.GO_ON, self._conclusion())
        for vote in self.votes.values():
            self.discard(vote.step)
        await self._respond(Verdict.NO_MORE)

    def _conclusion(self) -> str:
        """Conclude a stage that all workers have reported; returns why the checkpoint is not kept, empty if it is."""
        votes, self.votes = self.votes, {}
        steps = {vote.step for vote in votes.values()}
        if len(steps) > 1:
            raise WorkloadError(
                f"worker.save() was called after step {min(steps)} at one worker and after step {max(steps)} at another: call it after the "
                "same step at every worker."
            )
        step, stages = steps.pop(), {vote.stage for vote in votes.values()}
        if stages == {Stage.READY}:
            self.costs.ready()
            return ""
        problem = next((vote.problem for vote in votes.values() if vote.problem), "") or self.commit(step)
        if problem:
            self.discard(step)
        agreed = self.moments.agreed(step, self.costs.written(step))
        self.next = () if agreed is None else (float(agreed),)
        return problem

    async def _respond(self, verdict: Verdict, text: str = "") -> None:
        for name in self.group.members:
            await self.port.send(name, Message(_VERDICTS, (float(verdict), *self.next), text))


class Checkpointing:
    """One worker's checkpoints by `plan`: `state` is the state that it writes, and `manifest` makes their manifests."""

    def __init__(self, plan: CheckpointPlan, context: WorkerContext, group: Group, state: Any, manifest: ManifestOf) -> None:
        self.plan = plan
        self.context = context
        self.group = group
        self.state = state
        self.manifest = manifest
        self.last = 0
        self.next: int | None = None
        self.losses: Callable[[], int] = lambda: 0
        self.over = plan.store is None
        self.came: Callable[[int], None] = _nothing_yet
        self.settled: Callable[[int], int] = _as_it_is
        """Takes the steps that are under way, and returns the number of the last."""
        self.close: Callable[[], None] = _nothing

    def begin(self, losses: Callable[[str], None]) -> None:
        """Lock the directory and start the coordinator, at worker 0; `losses` subscribes a topic to notices of lost workers."""
        if self.plan.store is None or not self.group.is_first:
            return
        if self.close is _nothing:
            self._count_start(RestartCount(self.plan.store.directory, self.plan.restarts))
            self.close = self.plan.store.lock()
        losses(_VOTES)
        port = self.context.port
        costs = CheckpointCosts(port.now, self.plan.began, max(self.last, self.plan.step), self.group.size, lambda: self.losses())
        coordinator = Coordinator(port, self.group, self.plan, self._commit, costs)

        async def spawn() -> None:
            await self.context.port.spawn("checkpoints", coordinator.live())

        self.context.perform(spawn())

    def regroup(self, group: Group, manifest: ManifestOf, losses: Callable[[str], None], furthest: int) -> None:
        """Write checkpoints together with the workers of another `group`, whose first coordinates from now on.

        Those of steps up to that of the `furthest` worker are left out: some were interrupted in them, and take no part again.
        """
        self.group, self.manifest, self.over = group, manifest, self.plan.store is None
        self.last, self.next = max(self.last, furthest), None
        self.begin(losses)

    def between(self, clock: int) -> None:
        """After step `clock`: write a checkpoint if one is due; if the run was asked to stop, write the last one and end here."""
        self.came(clock)
        last = None if self.plan.store is None else self.context.last_step(clock)
        if last is not None and clock >= last:
            self.context.stop(self.save(clock))
        elif self.due(clock):
            self.save(clock)

    def due(self, clock: int) -> bool:
        """True if a checkpoint is due after step `clock`, or was due after an earlier step since the last one."""
        return not self.over and clock >= (self.plan.moments.after(self.last) if self.next is None else self.next)

    def request(self, step: int, position: DataPosition) -> bool:
        """Write a checkpoint because the user called `Worker.save`; True if it is kept, or the broken-off run has written it."""
        if self.plan.store is None:
            raise WorkloadError(
                "worker.save() was called in a run without a checkpoint directory: give one, with pr.run(checkpoint=...), "
                "pr.join(checkpoint=...) or --checkpoint."
            )
        if position.returning:  # the broken-off run has written this one; a new one would have a position before its weights
            position.saved()
            return True
        position.refuse_saving_early()
        return self.save(step)

    def save(self, step: int) -> bool:
        """Write the checkpoint after `step`, together with all other workers; True if it is kept. It takes no virtual time."""
        step = step if self.over else self.settled(step)
        self.last = step
        self.state.look()
        if self.over or self._vote(Vote(Stage.READY, step)) is None:
            return False
        problem = self.state.drain(step)
        if not problem:
            problem = self.context.write(lambda: self._write(step, self.state.export()))
        kept = self._vote(Vote(Stage.WRITTEN, step, problem))
        if kept == "" and self.group.is_first:
            self.context.record(Saved(self.context.port.now(), self.context.port.name, step))
        return kept == ""

    def end(self, step: int) -> None:
        """Report that this worker takes no more steps."""
        self.came(max(step, self.plan.step + 1))  # a run that was over before is no failure
        if not self.over:
            self.over = True
            self.context.perform(self._send(Vote(Stage.ENDED, step)))

    def _count_start(self, starts: RestartCount) -> None:
        """Count this start until it has taken a step. Raises NoProgressError after too many that took none."""
        starts.started(self.plan.step)

        def came(clock: int) -> None:
            if clock > self.plan.step:
                starts.stepped()
                self.came = _nothing_yet

        self.came = came

    def _vote(self, vote: Vote) -> str | None:
        """Report a stage and wait for all workers: why the checkpoint is not kept, empty if it is; None if no more can be complete."""
        verdict, problem = self.context.perform(self._wait(vote))
        if verdict is Verdict.NO_MORE:
            self.over = True
            return None
        if problem and self.group.is_first:
            warnings.warn(f"The checkpoint after step {vote.step} was not written: {problem}.", RecordWarning, stacklevel=2)
        return problem

    async def _wait(self, vote: Vote) -> tuple[Verdict, str]:
        await self._send(vote)
        delivery = await self.context.port.receive(_VERDICTS)
        assert delivery is not None
        verdict, *agreed = map(int, delivery.message.numbers)
        self.next = agreed[0] if agreed else None
        return Verdict(verdict), delivery.message.text

    async def _send(self, vote: Vote) -> None:
        await self.context.port.send(self.group.first, Message(_VOTES, (float(vote.stage), float(vote.step)), vote.problem))

    def _write(self, step: int, state: StateTree) -> str:
        assert self.plan.store is not None, "else there is nothing to write"
        try:
            self.plan.store.partial(step).write(self.context.port.name, state)
        except OSError as problem:
            return f"{self.context.port.name} could not write its state: {problem.strerror or problem}"
        return ""

    def _commit(self, step: int) -> str:
        assert self.plan.store is not None, "else there is nothing to commit"
        try:
            self.plan.store.commit(step, self.manifest(step, self.context.port.now(), self.plan))
        except CheckpointError as problem:
            return str(problem).rstrip(".")
        except OSError as problem:
            return f"it could not be renamed: {problem.strerror or problem}"
        return ""


def _nothing_yet(clock: int) -> None:
    """Count nothing: only the first worker counts starts, and only until it has taken a step."""


def _as_it_is(step: int) -> int:
    """No step is under way."""
    return step


def _nothing() -> None:
    """Close nothing: only a worker that has locked the directory releases it."""
