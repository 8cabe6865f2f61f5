"""A worker's side of a controller: its measurements, and the decisions so far."""

from __future__ import annotations

import math
from collections.abc import Mapping

from polyrhythm.core.kernel.events import Adjusted
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controller, Measurements, WorkerMeasure
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree

_TOPIC = "measured"
_ENOUGH = 4096
"""Bytes from which a bandwidth is computed; fewer are enough if they took as long as a step, when overheads do not matter."""
_MEMORY = 0.5
"""The weight of the last bandwidth of a link if the new one is higher; a lower one is taken at once, or packets pile up."""


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
            key = (decision.setting, decision.receiver)
            if self.values.get(key) != decision.value:
                self.values[key] = decision.value
                name = decision.setting.value
                self.context.record(Adjusted(self.port.now(), self.port.name, clock, name, decision.receiver, decision.value))

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
        self.steps, self.seconds, self.samples, losses = state["since"]
        self.losses = list(losses)
        self.bytes_and_seconds = {name: (nbytes, seconds) for name, (nbytes, seconds) in state["sent"].items()}
        self.values = {(ControlledSetting(setting), receiver): value for setting, receiver, value in state["values"]}
        self.bandwidths, self.state = state["bandwidths"], state["state"]
        self.workers = {name: WorkerMeasure(*each) for name, each in state["workers"].items()}

    def take_over(self, state: StateTree, own: bool) -> None:
        """Continue without what was measured of workers that have left; one that joins takes the decisions that are for all receivers."""
        present = {"", *self.group.members} if own else {""}
        only = {key: {name: each for name, each in state[key].items() if name in present} for key in ("sent", "bandwidths", "workers")}
        values = [each for each in state["values"] if each[1] in present]
        self.restore({**state, **only, "values": values, "since": state["since"] if own else (0, 0.0, 0, [])})
