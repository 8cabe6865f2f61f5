"""The cost of a collective in the simulator: charged message by message, or in closed form where messages are too many."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from torch import Tensor

from polyrhythm.core.kernel.effects import NativeReduce
from polyrhythm.core.simulator.actors import VirtualTask
from polyrhythm.errors import CompositionError


class Messages(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Every message of a collective is simulated (the default)."""


class ClosedForm(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A reduction takes the closed-form time of its schedule on the slowest path of the network, and sends no messages.

    The sum is taken in the order of ranks. A message from a worker to all others takes the time that it takes if all do so at once, at the
    bandwidths of its path, and is one event for each site; it is counted as messages. For sizes where messages cannot be
    enumerated: a ring of 1,000 workers sends two million a step, and a step in which all send to all a million.
    Contention with other traffic is not modelled, nor do losses and cuts delay what is charged so; and a message to all may arrive before
    one that its sender has sent to one of them alone.
    """


Collectives = Messages | ClosedForm


@dataclass(slots=True)
class PendingReduction:
    """One reduction, and the members that have joined it, by rank."""

    came: dict[int, tuple[VirtualTask, NativeReduce]] = field(default_factory=dict)


class Reductions:
    """Reductions in closed form that are under way, by group and topic. `link` is (latency in seconds, bytes per second)."""

    def __init__(self, link: tuple[float, float]) -> None:
        self.link = link
        self._gatherings: dict[tuple[str, str], PendingReduction] = {}

    def joined(self) -> dict[tuple[str, str], int]:
        """The number of members that have joined each reduction, by group and topic."""
        return {key: len(gathering.came) for key, gathering in self._gatherings.items()}

    def join(self, task: VirtualTask, effect: NativeReduce) -> PendingReduction | None:
        """Let a member join; returns the reduction once all members have."""
        name, group, key = task.actor.name, effect.group, (effect.group.name, effect.topic)
        gathering = self._gatherings.setdefault(key, PendingReduction())
        if group.rank in gathering.came or name not in group.members[group.rank : group.rank + 1]:
            raise CompositionError(
                f"{name} joined the reduction {effect.topic!r} of {group.size} members with rank {group.rank}, which is not its rank or "
                "had already joined. Each member must join once, and each reduction needs a separate topic."
            )
        gathering.came[group.rank] = (task, effect)
        return self._gatherings.pop(key) if len(gathering.came) == group.size else None

    def settle(self, gathering: PendingReduction) -> tuple[Tensor, float, int, int]:
        """The sum in the order of ranks, the seconds it takes from now, and the bytes and messages it stands for."""
        effects = [gathering.came[rank][1] for rank in range(len(gathering.came))]
        total = effects[0].value.detach().clone()
        for effect in effects[1:]:
            total += effect.value.detach()
        schedule, workers = effects[0].schedule, effects[0].group.size
        nbytes = total.numel() * total.element_size()
        seconds = schedule.seconds(nbytes, workers, *self.link)
        return (total, seconds, *schedule.traffic(total, workers, effects[0].topic))
