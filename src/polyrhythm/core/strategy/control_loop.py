"""A worker's side of a controller: its measurements, and the decisions so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from polyrhythm.core.kernel.events import Adjusted
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controller, Decision, Measurements, WorkerMeasure
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree

_TOPIC = "measured"
_ENOUGH = 4096
"""Bytes from which a bandwidth is computed; fewer are enough if they took as long as a step, when overheads do not matter."""
_MEMORY = 0.5
"""The weight of the last bandwidth of a link if the new one is higher; a lower one is taken at once, or packets pile up."""
_OF_A_REPLICA = (ControlledSetting.BATCH, ControlledSetting.LOCAL_STEPS, ControlledSetting.TEACHER)
"""What workers with the parts of one replica must have in common; other settings are of a worker's own links."""


class ControlLoop:
    """The `Controls` of one worker: measures its steps and links, asks the controller, and keeps its decisions.

    `values` are the current decisions; `bytes_and_seconds` are the bytes that have left and how long that took, by receiver, since the last
    computed bandwidth; `leaving` are the bytes that are on their way out, and since when.
    """

    def __init__(self, controller: Controller, group: Group, port: Port, context: WorkerContext) -> None:
        self.controller = controller
        self.group = group
        self.port = port
        self.context = context
        self.values: dict[tuple[ControlledSetting, str], float] = {}
        self.bytes_and_seconds: dict[str, tuple[int, float]] = {}
        self.leaving: dict[str, tuple[int, float]] = {}
        self.bandwidths: dict[str, float] = {}
        self.workers: dict[str, WorkerMeasure] = {}
        self.steps, self.seconds, self.samples = 0, 0.0, 0
        self.losses: list[float] = []
        self.state: State = {}
        self.nbytes = 0

    @property
    def measures(self) -> bool:
        return bool(self.controller.traits.sets)

    def value(self, setting: ControlledSetting, composed: float, receiver: str = "") -> float:
        found = self.values.get((setting, receiver))
        return self.values.get((setting, ""), composed) if found is None else found

    def leaves(self, receiver: str, nbytes: int) -> None:
        self.leaving[receiver] = (nbytes, self.port.now())

    def sent(self, receiver: str, nbytes: int, seconds: float) -> None:
        self.leaving.pop(receiver, None)
        before = self.bytes_and_seconds.get(receiver, (0, 0.0))
        self.bytes_and_seconds[receiver] = (before[0] + nbytes, before[1] + seconds)

    def reported(self, metrics: Mapping[str, float]) -> None:
        """Note the metrics that the worker has reported, of which "loss" is used."""
        if self.measures and "loss" in metrics:
            self.losses.append(metrics["loss"])

    def stepped(self, clock: int, seconds: float, samples: int) -> None:
        """Note that step `clock` has ended, for which the worker computed `seconds` on `samples`; decide if it is time."""
        if not self.measures:
            return
        self.steps, self.seconds, self.samples = self.steps + 1, self.seconds + seconds, self.samples + samples
        if clock % self.controller.traits.every:
            return
        before = self.workers.get(self.port.name, WorkerMeasure(0.0, 0.0))
        loss = sum(self.losses) / len(self.losses) if self.losses else before.loss
        self.workers[self.port.name] = WorkerMeasure(self.seconds / self.steps, self.samples / self.steps, loss)
        self.steps, self.seconds, self.samples = 0, 0.0, 0
        self.losses.clear()
        self._take_bandwidths(self.workers[self.port.name].seconds)
        if self.controller.traits.sees_others:
            self.context.perform(self._share(clock))
        measured = Measurements(clock, self.port.name, self.workers, self.bandwidths, self.nbytes, self.group.size)
        decisions, self.state = self.controller.decide(measured, self.state)
        for decision in decisions:
            self._set(clock, decision)

    def _set(self, clock: int, decision: Decision) -> None:
        key = (decision.setting, decision.receiver)
        if self.values.get(key) != decision.value:
            self.values[key] = decision.value
            name = decision.setting.value
            self.context.record(Adjusted(self.port.now(), self.port.name, clock, name, decision.receiver, decision.value))

    @property
    def decides_for_replica(self) -> bool:
        """True if the controller sets what workers with the parts of one replica must have in common."""
        return bool(self.controller.traits.sets.intersection(_OF_A_REPLICA))

    @property
    def of_replica(self) -> list[float]:
        """The decisions that workers with the parts of one replica must have in common, NaN where there is none yet.

        A teacher is its place in the group: each part learns from the worker with the same part.
        """
        found = {setting: self.values.get((setting, ""), math.nan) for setting in _OF_A_REPLICA}
        places = {float(rank_of(name)): place for place, name in enumerate(self.group.members)}
        return [*({**found, ControlledSetting.TEACHER: places.get(found[ControlledSetting.TEACHER], math.nan)}.values())]

    def follow(self, clock: int, of_replica: Sequence[float]) -> None:
        """Have these decisions, of another worker with a part of the replica, in the place of one's own: none where it has none yet.

        It may have heard of the others' speeds later than this one, or earlier.
        """
        for setting, value in zip(_OF_A_REPLICA, of_replica, strict=True):
            if math.isnan(value):
                self.values.pop((setting, ""), None)
            else:
                teacher = setting is ControlledSetting.TEACHER
                self._set(clock, Decision(setting, float(rank_of(self.group.members[int(value)])) if teacher else value))

    def _take_bandwidths(self, step: float) -> None:
        for name, (nbytes, seconds) in list(self.bytes_and_seconds.items()):
            if nbytes > 0 < seconds and (nbytes >= _ENOUGH or seconds >= step > 0):
                now, before = nbytes / seconds, self.bandwidths.get(name)
                self.bandwidths[name] = now if before is None else min(now, _MEMORY * before + (1 - _MEMORY) * now)
                del self.bytes_and_seconds[name]
        for name, (nbytes, since) in self.leaving.items():
            seconds = self.port.now() - since
            if nbytes > 0 and seconds >= step > 0:  # a packet may take many steps to leave: lower the bandwidth before that
                self.bandwidths[name] = min(nbytes / seconds, self.bandwidths.get(name, math.inf))

    async def _share(self, clock: int) -> None:
        """Send this worker's measure to all, and take in those that have come."""
        mine = self.workers[self.port.name]
        others = [name for name in self.group.members if name != self.port.name]
        await self.port.send_all(others, Message(_TOPIC, (float(clock), mine.seconds, mine.samples, mine.loss)))
        for delivery in await self.port.receive_all(_TOPIC):
            _, seconds, samples, loss = delivery.message.numbers
            self.workers[delivery.sender] = WorkerMeasure(seconds, samples, loss)

    def export(self) -> StateTree:
        """The current decisions, the measures on which they were made, and those of the steps since."""
        return {
            "since": [self.steps, self.seconds, self.samples, list(self.losses)],
            "sent": {name: list(each) for name, each in self.bytes_and_seconds.items()},
            "values": [(setting.value, receiver, value) for (setting, receiver), value in self.values.items()],
            "bandwidths": self.bandwidths,
            "workers": {name: (each.seconds, each.samples, each.loss) for name, each in self.workers.items()},
            "state": self.state,
        }

    def restore(self, state: StateTree) -> None:
        """Continue from an exported state, without what was measured of workers that are not in the group."""
        self.steps, self.seconds, self.samples, losses = state["since"]
        self.losses = list(losses)
        present = {"", *self.group.members}
        sent, workers = ({name: each for name, each in state[key].items() if name in present} for key in ("sent", "workers"))
        self.bytes_and_seconds = {name: (nbytes, seconds) for name, (nbytes, seconds) in sent.items()}
        self.workers = {name: WorkerMeasure(*each) for name, each in workers.items()}
        self.bandwidths = {name: each for name, each in state["bandwidths"].items() if name in present}
        self.values = {(ControlledSetting(setting), receiver): value for setting, receiver, value in state["values"] if receiver in present}
        self.state = state["state"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """Continue among other workers; one that joins takes the decisions that are for all receivers, and no measures."""
        if not own:
            values = [each for each in state["values"] if each[1] == ""]
            nothing: StateTree = {"since": (0, 0.0, 0, []), "sent": {}, "bandwidths": {}, "workers": {}}
            state = {**state, **nothing, "values": values}
        self.restore(state)
