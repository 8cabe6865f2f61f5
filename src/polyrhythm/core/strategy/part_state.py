"""The state of a part in a checkpoint: its clock, its weights, and the states of its channel, inner exchanges, local rule and controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.protocols.state import Stateful
from polyrhythm.core.protocols.topology import Channel
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.inner import Inner
from polyrhythm.core.strategy.local_rule import LocalRuleOfPart
from polyrhythm.core.strategy.other_model import refuse_other_model
from polyrhythm.core.strategy.watching.written import HandWrites
from polyrhythm.core.trees import StateTree


class StatefulPart(Protocol):
    """A part with everything that its state is made of."""

    parameters: Parameters
    writes: HandWrites
    clock: int
    taken_rates: tuple[float, ...]

    @property
    def state(self) -> Stateful: ...

    @property
    def channel(self) -> Channel: ...

    @property
    def context(self) -> WorkerContext: ...

    @property
    def inner(self) -> Sequence[Inner]: ...

    @property
    def rule(self) -> LocalRuleOfPart: ...

    @property
    def control(self) -> Stateful: ...


def exported(part: StatefulPart) -> StateTree:
    """The state of `part`, after `drain`."""
    inner = [each.export() for each in part.inner]
    return {
        "layout": _shapes(part.parameters),
        "clock": part.clock,
        "rates": list(part.taken_rates),
        "model": part.state.export(),
        "channel": part.channel.export(),
        "inner": inner,
        "local": part.rule.export(),
        "control": part.control.export(),
    }


def restore(part: StatefulPart, state: StateTree) -> None:
    """Restore an exported state, after `establish`. Raises CheckpointError for that of another model."""
    refuse_other_model(state["layout"], _shapes(part.parameters))
    part.clock, part.taken_rates = state["clock"], tuple(state["rates"])
    part.rule.restore(state["local"])
    part.control.restore(state["control"])
    part.state.restore(state["model"])
    part.channel.restore(state["channel"])
    for inner, exported in zip(part.inner, state["inner"], strict=True):
        inner.restore(exported)
    part.writes.note(resumed=True)


def drained(part: StatefulPart, step: int) -> str:
    """Drain the channel of every exchange of `part`. Returns the first error, or ""."""
    channels = [*(inner.channel for inner in part.inner), *(each.channel for each in part.rule.beside), part.channel]
    problems = [part.context.perform(channel.drain(step)) for channel in channels]
    return next(filter(None, problems), "")


def _shapes(parameters: Parameters) -> dict[str, list[int]]:
    layout = parameters.layout
    return {name: list(shape) for name, shape in zip(layout.names, layout.shapes, strict=True)}
