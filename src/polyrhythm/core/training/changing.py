"""A worker's side of a change of the crew: agrees with the others on what was completed, and continues in the next view.

`Worker` has one in a run whose crew may change; `admitted` is how a newcomer begins. See docs/decisions/changing-crew.md.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import structs

from polyrhythm.core.checkpoints.plan import CheckpointPlan, RunOrigin
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import View, ViewChange, ViewChanged
from polyrhythm.core.protocols.deals import used_at
from polyrhythm.core.strategy.hand_over import HandOver, Kept
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.change_verdict import NONE, ChangeVerdict, Facts, judged
from polyrhythm.core.training.regrouped import Regrouped
from polyrhythm.core.trees import StateTree, copied, separate, unite

_FACTS, _VERDICT, _STATE, _LEFT = "crew/facts", "crew/verdict", "crew/state", "crew/left"


class LeftCrew(SystemExit):
    """Ends the program of a worker that leaves the run with notice; the run continues. A script ends with exit code 0."""


async def decided(port: Port, change: ViewChange, before: Sequence[str], leaving: Sequence[str], own: Facts) -> ChangeVerdict:
    """What the first of the next view decides when all have reported, also those `leaving`; `before` were the members until now."""
    view = change.after
    if port.name != view.first:
        await port.send(view.first, Message(_FACTS, text=msgspec.json.encode(own).decode()))
        delivery = await port.receive(_VERDICT, view.first)
        assert delivery is not None
        return msgspec.json.decode(delivery.message.text, type=ChangeVerdict)
    found = {port.name: own}
    while len(found) < view.size + len(leaving):
        delivery = await port.receive(_FACTS)
        assert delivery is not None
        found[delivery.sender] = msgspec.json.decode(delivery.message.text, type=Facts)
    verdict = judged(change, before, found)
    for name in view.members[1:]:
        await port.send(name, Message(_VERDICT, text=msgspec.json.encode(verdict).decode()))
    return verdict


async def give(port: Port, to: Sequence[str], topic: str, state: StateTree) -> None:
    """Send `state` to each of `to`."""
    text, tensors = separate(state)
    names = msgspec.json.encode([text, list(tensors)]).decode()
    for name in to:
        await port.send(name, Message(topic, text=names, tensors=tuple(tensors.values())))


async def taken(port: Port, sender: str, topic: str) -> StateTree:
    """The state that `sender` gives."""
    delivery = await port.receive(topic, sender)
    assert delivery is not None
    text, names = msgspec.json.decode(delivery.message.text)
    return copied(unite(text, dict(zip(names, delivery.message.tensors, strict=True))))  # another taker may have the same tensors


@dataclass(slots=True)
class _Carried:
    """What a worker carries from one view to the next, or to the one after where it is interrupted on the way.

    That is its `facts` and `state`, or those of a donor if not `own`, and what those that have `left` handed to it. `at_cut`: it comes from
    a cut, where newcomers of any of these views begin. `answered`: another has completed the call that was interrupted here.
    """

    facts: Facts
    state: StateTree = None
    own: bool = True
    left: list[StateTree] = field(default_factory=list)
    kept: Sequence[Kept] = ()
    at_cut: bool = False
    answered: bool = False

    def answer(self, state: StateTree) -> None:
        """Keep the own part of a model, of which a donor's is another, and have the result of the call that the donor has completed."""
        self.facts = structs.replace(self.facts, progress=tuple(state["progress"]))
        self.state, self.answered = {**self.state, "calls": state["calls"]}, True

    def take(self, state: StateTree, kept: Sequence[Kept], completed: int) -> None:
        """Continue from a donor's state, with which so many steps are `completed`, and send later what this worker has `kept` back.

        A step that the donor has completed is over.
        """
        progress, facts = tuple(state["progress"]), self.facts
        if facts.used is not None and facts.progress[:-1] < progress[:-1]:
            facts = structs.replace(facts, used=used_at(facts.used, completed=True))
        self.facts = structs.replace(facts, progress=progress, completed=completed)
        self.state, self.own, self.kept = state, False, kept


@dataclass(slots=True)
class ChangingCrew:
    """The `view` that `worker` is in, by `plan`.

    `began` are the steps that its members had completed when it began, and `dealt` those for which they had batches by then, if known.
    """

    context: WorkerContext
    plan: StrategyPlan
    view: View
    worker: Regrouped
    cut: StateTree = None
    """The state at the last cut, until two steps later: one that joined then, and did not get it, begins there."""
    began: dict[str, int] = field(default_factory=dict)
    dealt: dict[str, int] = field(default_factory=dict)

    def uninterrupted(self, action: Callable[[], None]) -> None:
        """Do something that is dropped where the loss of a worker interrupts it, such as a checkpoint."""
        try:
            action()
        except ViewChanged as interruption:
            self.reform(interruption.change)

    def perform(self, coroutine: Coroutine[Effect[Any], Any, Any]) -> Any:
        """Perform what is not made again after a change of the crew: its result, or None where the loss of a worker interrupts it."""
        try:
            return self.context.perform(coroutine)
        except ViewChanged as interruption:
            self.reform(interruption.change)
            return None

    def between(self, drain: Callable[[int], str]) -> None:
        """Between two steps: change with all others, if it is time. Raises LeftCrew if this worker leaves."""
        while True:
            try:
                change = self._at_cut(self.worker.clock, drain)
                break
            except ViewChanged as interruption:  # in the next view a cut may have been agreed on already
                self.reform(interruption.change)
        if change is None:
            return
        if not change.after.present(self.context.port.name):
            self._leave(change)
        self.reform(change)

    def _at_cut(self, clock: int, drain: Callable[[int], str]) -> ViewChange | None:
        """The change that follows after step `clock`, if there is one."""
        step = self.context.crew.cut(clock)
        if step is None or clock < step:
            self._forget(clock)
            return None
        self.worker.look()
        return self._come(clock, drain)

    def _forget(self, clock: int) -> None:
        if self.cut is not None and clock > self.cut["clock"] + 1:
            self.cut = None

    def _come(self, clock: int, drain: Callable[[int], str]) -> ViewChange | None:
        """Wait at the cut for all others, with nothing under way: the change that follows, None if the cut was given up."""
        drain(clock)
        return self.context.crew.change()

    def finish(self, drain: Callable[[int], str]) -> None:
        """Wait until no worker takes any more steps, in whatever view."""
        crew, clock = self.context.crew, self.worker.clock
        while True:
            try:
                if crew.changes:
                    self.worker.rest()
                if crew.finish():
                    return
                if crew.cut(clock) is not None:
                    self._come(clock, drain)
            except ViewChanged as interruption:
                self.reform(interruption.change)

    def reform(self, change: ViewChange) -> bool:
        """Continue in the next view, or the one after, if another worker is lost. True if the worker has kept its own state."""
        before, carried = self.view, _Carried(self._facts())
        while True:
            try:
                self._enter(change, carried)
                break
            except ViewChanged as interruption:
                change = interruption.change
        self.view = change.after
        self.worker.changed(ViewChange(before, change.after, change.lost | {*before.members} - {*change.before.members}))
        return carried.own and not carried.answered

    def _enter(self, change: ViewChange, carried: _Carried) -> None:
        context, port, view = self.context, self.context.port, change.after
        context.crew.enter(change)
        carried.at_cut = carried.at_cut or bool(change.joined)
        leavers = [name for name in change.left if name not in change.lost]
        verdict = context.perform(decided(port, change, self.view.members, leavers, carried.facts))
        if carried.state is None:  # from now on nobody writes to what workers share in the view that is over
            carried.state = {**self.worker.export(), "progress": carried.facts.progress, "clock": carried.facts.clock}
        if self.plan.mesh.cut:
            self._answer(verdict, carried)
        elif port.name == verdict.donor:
            between = carried.state if carried.at_cut or self.cut is None else self.cut
            beginners = [name for name in verdict.takers if name in verdict.beginners]
            context.perform(give(port, [name for name in verdict.takers if name not in beginners], _STATE, carried.state))
            context.perform(give(port, beginners, _STATE, between))
        elif port.name in verdict.takers:
            state, kept = context.perform(taken(port, verdict.donor, _STATE)), self.worker.kept_back() if carried.own else carried.kept
            carried.take(state, kept, verdict.began[port.name])
        self.plan = self.plan.changed(view.members, context.crew.locations(view.members), verdict.gone)
        carried.left += [context.perform(taken(port, name, _LEFT)) for name in leavers if port.name == view.first]
        if carried.at_cut:
            self.cut = carried.state
        decisions = (verdict.furthest, verdict.used, verdict.donor)
        handed = HandOver(carried.state, carried.own, carried.left, *decisions, carried.kept, verdict.trained)
        self.worker.regroup(self.plan, handed)
        self.began, self.dealt = verdict.began, verdict.dealt

    def _answer(self, verdict: ChangeVerdict, carried: _Carried) -> None:
        """Where each has another part of a model, the calls of the donor are all that others take."""
        context, port = self.context, self.context.port
        if port.name == verdict.donor:
            calls = {name: carried.state[name] for name in ("calls", "progress")}
            context.perform(give(port, verdict.takers, _STATE, calls))
        elif port.name in verdict.takers:
            carried.answer(context.perform(taken(port, verdict.donor, _STATE)))

    def _facts(self) -> Facts:
        worker = self.worker
        done, used, gone = (worker.completed, worker.exchanged), worker.used, list(worker.gone)
        kinds = (worker.alike, worker.paced)
        return Facts(worker.progress, worker.clock, *done, *kinds, used, self.began, self.dealt, gone, worker.meets, worker.trained)

    def _leave(self, change: ViewChange) -> None:
        """Hand the state, with what was not sent, to the first of the others."""
        exported = self.worker.export()
        state = {name: exported[name] for name in ("replicas", "tables") if name in exported}
        facts = msgspec.json.encode(self._facts()).decode()
        self.context.crew.enter(change)
        port, first = self.context.port, change.after.first

        async def hand_over() -> None:
            await port.send(first, Message(_FACTS, text=facts))
            await give(port, [first], _LEFT, state)

        self.context.perform(hand_over())
        raise LeftCrew


def admitted(context: WorkerContext, plan: StrategyPlan, checkpoints: CheckpointPlan) -> tuple[StrategyPlan, CheckpointPlan]:
    """Wait until this newcomer is admitted to the run, and until a survivor has handed over its state: how the worker begins."""
    change = context.crew.change()
    assert change is not None, "a newcomer that is not admitted is dismissed"
    while True:
        try:
            context.crew.enter(change)
            port, view = context.port, change.after
            verdict = context.perform(decided(port, change, (), (), Facts((NONE,))))
            state = {**context.perform(taken(port, verdict.donor, _STATE)), "used": [verdict.used, verdict.donor]}
            state |= {"began": verdict.began, "dealt": verdict.dealt}
            origin = RunOrigin(*state["origin"]) if "origin" in state else checkpoints.origin
            chosen = replace(checkpoints, handed=state, epoch=view.epoch, origin=origin)
            return plan.changed(view.members, context.crew.locations(view.members), verdict.gone), chosen
        except ViewChanged as interruption:
            change = interruption.change
