"""The message of a deadlock: which actor waits for which."""

from __future__ import annotations

from typing import Any

from polyrhythm.core.kernel.effects import Effect, Flush, NativeExchange, NativeReduce, Receive, Wait
from polyrhythm.core.kernel.message import CALL
from polyrhythm.core.kernel.uneven import uneven
from polyrhythm.core.kernel.waiting import awaited
from polyrhythm.core.simulator.actors import VirtualActor, VirtualTask
from polyrhythm.errors import DeadlockError

_SHOWN = 16


def deadlock(
    now: float, actors: dict[str, VirtualActor], joined: dict[tuple[str, str], int], stopped: dict[str, int], cause: str = ""
) -> DeadlockError:
    """The error for a run in which nothing will happen any more.

    `joined` counts the members that have joined each reduction, `stopped` the steps of programs that take no more. `cause` are injected
    faults that keep messages from arriving: they come first, and nobody's training function is blamed.
    """
    going = [actor.name for actor in actors.values() if actor.program is not None and not actor.ended and actor.name not in stopped]
    reason = uneven(stopped, going, [actor.name for actor in actors.values() if any(_calls(task.waiting) for task in actor.tasks)])
    if reason is not None and not cause:
        return DeadlockError(reason)
    waiting = [(actor, task) for actor in actors.values() for task in actor.tasks if not isinstance(task.waiting, Wait | None)]
    waits = [_wait(actor, task, actors, joined) for actor, task in sorted(waiting, key=lambda each: _idleness(*each))]
    more = f"; and {len(waits) - _SHOWN} more wait" if len(waits) > _SHOWN else ""
    because = f", because {cause}" if cause else ""
    return DeadlockError(f"Deadlock at {now:.9g} s of virtual time{because}: {'; '.join(waits[:_SHOWN])}{more}.")


def _idleness(actor: VirtualActor, task: VirtualTask) -> tuple[bool, bool]:
    """Last come servers and listeners that take messages from anyone: they are idle, and nobody waits for them."""
    serves = actor.program is None
    anyone = isinstance(task.waiting, Receive) and not task.waiting.sender
    return anyone and (serves or bool(task.name)), serves


def _calls(effect: Effect[Any] | None) -> bool:
    """True if the task of this effect waits in a call of the user's program, such as `worker.barrier()`."""
    return isinstance(effect, (Receive, NativeReduce)) and effect.topic.startswith(CALL)


def _wait(actor: VirtualActor, task: VirtualTask, actors: dict[str, VirtualActor], joined: dict[tuple[str, str], int]) -> str:
    who = f"{actor.name} ({task.name})" if task.name else actor.name
    return f"{who} waits for {_wanted(task.waiting, actors, joined)}"


def _wanted(effect: Effect[Any] | None, actors: dict[str, VirtualActor], joined: dict[tuple[str, str], int]) -> str:
    if isinstance(effect, NativeReduce):
        came = joined.get((effect.group.name, effect.topic), 0)
        return f"the reduction {effect.topic!r}, which {came} of {effect.group.size} workers have joined"
    if isinstance(effect, NativeExchange):
        return f"the exchange {effect.topic!r}"
    if isinstance(effect, Flush):
        return "its messages to be sent"
    if not isinstance(effect, Receive):
        return "a time that is never reached"
    sender = actors.get(effect.sender)
    fate = "" if not effect.sender else ", which does not exist" if sender is None else ", which has ended" if sender.ended else ""
    return f"{awaited(effect.topic, effect.sender)}{fate}"
