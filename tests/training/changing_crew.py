"""A crew of fake workers in lockstep that read data, lose members, and take on others, without a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Condition
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Receive, Send, Spawn
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Delivery
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import AS_COMPOSED
from polyrhythm.core.protocols.deal_rules import BatchSize, PerWorker
from polyrhythm.core.protocols.deals import used_at
from polyrhythm.core.training.data.data import Data
from polyrhythm.core.training.loops import used_in
from polyrhythm.core.training.position import DataPosition
from polyrhythm.shuffle import GlobalShuffle

Reads = Callable[[Data, Port, Any], Iterator[Any]]
"""A training function's loop over a worker's data: yields what each step gets."""


class Sums:
    """Sums over the present members, who begin the same ones in the same order, each in a thread of its own."""

    def __init__(self, members: int) -> None:
        self.members = members
        self.begun: dict[int, list[Tensor]] = {}
        self.ready = Condition()

    def result(self, number: int) -> Tensor:
        with self.ready:
            assert self.ready.wait_for(lambda: len(self.begun[number]) == self.members, timeout=20)
            return torch.stack(self.begun[number]).sum(0)


@dataclass
class OwnSums:
    """One member's side."""

    shared: Sums
    count: int = 0

    def begin(self, value: Tensor) -> OwnSum:
        with self.shared.ready:
            self.shared.begun.setdefault(self.count, []).append(value)
            self.shared.ready.notify_all()
        self.count += 1
        return OwnSum(self.shared, self.count - 1)


@dataclass(frozen=True)
class OwnSum:
    """One sum."""

    shared: Sums
    number: int

    def result(self) -> Tensor:
        return self.shared.result(self.number)


class Mail:
    """Messages between members, and the effects of their coroutines."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, str], list[Delivery]] = {}
        self.came = Condition()

    def perform(self, name: str, coroutine: Any) -> Any:
        """Run a coroutine of a member; what it spawns waits for notices that do not come."""
        value = None
        while True:
            try:
                effect = coroutine.send(value)
            except StopIteration as end:
                return end.value
            value = None
            with self.came:
                match effect:
                    case Send(to, message):
                        self.sent.setdefault((to, message.topic), []).append(Delivery(name, message))
                        self.came.notify_all()
                    case Receive(topic):
                        assert self.came.wait_for(partial(self.sent.get, (name, topic)), timeout=20)
                        value = self.sent[name, topic].pop(0)
                    case Spawn(_, spawned):
                        spawned.close()


@dataclass
class Member:
    """A worker: what it has used, and the batch that it holds."""

    position: DataPosition
    data: Data
    sums: OwnSums
    items: Iterator[Any]
    used: list[Any] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    held: Any = None
    over: bool = False

    def draw(self) -> None:
        if self.held is None and not self.over:
            self.held = next(self.items, None)
            self.over = self.held is None

    def step(self) -> None:
        if self.held is not None:
            self.used.append(self.held)
            self.weights.append(self.position.weight)
            self.held = None
            self.position.stepped()


class Crew:
    """Workers that take steps together; those that are gone are kept, for what they have used.

    They `talk`, each in a thread of its own, where data are agreed on or sent.
    """

    def __init__(self, reads: Reads, workers: int, shuffle: Any = None, size: BatchSize | None = None, talk: bool = False) -> None:
        self.reads = reads
        self.talk = talk
        self.shuffle = shuffle or GlobalShuffle()
        self.size = size or PerWorker()
        self.names = [worker(rank) for rank in range(workers)]
        self.joined = workers
        self.all: dict[str, Member] = {}
        self.mail = Mail()
        sums = Sums(workers)
        for name in self.names:
            self.all[name] = self.member(name, DataPosition(_nothing, _arrived), sums)

    @property
    def members(self) -> list[Member]:
        return [self.all[name] for name in self.names]

    def group(self, name: str) -> Group:
        return Group("", tuple(self.names), self.names.index(name), 3)

    def member(self, name: str, position: DataPosition, sums: Sums) -> Member:
        own = OwnSums(sums)
        totals: Any = own
        data = Data(self.shuffle, self.group(name), totals, _counted, position, AS_COMPOSED, _unfollowed, self.size)
        port = Port(name, 3, lambda: 0.0)
        return Member(position, data, own, self.reads(data, port, partial(self.mail.perform, name)))

    def draw(self) -> None:
        """All request the batch of the next step; at once, where they talk to each other."""
        if not self.talk:  # processes that a thread of a pool forks end with status 1
            for member in self.members:
                member.draw()
            return
        with ThreadPoolExecutor(len(self.names)) as pool:
            list(pool.map(Member.draw, self.members))

    def step(self) -> list[Any]:
        """All take a step: what they have used in it."""
        self.draw()
        used = [member.held for member in self.members]
        for member in self.members:
            member.step()
        return used

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def change(self, lost: Sequence[str] = (), leave: Sequence[str] = (), join: int = 0, completed: bool = False) -> None:
        """Some are lost, perhaps with what they hold, others leave or join; `completed`: the step that was interrupted counts."""
        staying = [name for name in self.names if name not in (*lost, *leave)]
        if completed:
            for name in staying:
                self.all[name].step()
        survivor = self.all[staying[0]]
        before = {name: used_at(survivor.data.used(), completed) if name in lost else self.all[name].data.used() for name in self.names}
        state = survivor.position.export_request()
        new = [worker(self.joined + k) for k in range(join)]
        self.joined += join
        self.names = [*staying, *new]
        sums = Sums(len(self.names))
        for name in staying:
            self.all[name].sums.shared, self.all[name].sums.count = sums, 0
            self.all[name].data.regroup(self.group(name), before)
        for name in new:
            position = DataPosition(_nothing, _arrived)
            position.restore(state, ())
            self.all[name] = self.member(name, position, sums)
            self.all[name].data.regroup(self.group(name), before)

    @staticmethod
    def resumed(crew: Crew, states: Mapping[str, Any], workers: int | None = None) -> Crew:
        """The workers of another run, perhaps of another number, that continue from the positions of one that was broken off."""
        found = Crew(crew.reads, 0, crew.shuffle, crew.size)
        found.names = [*states] if workers is None else [worker(rank) for rank in range(workers)]
        before = {name: used_in(state, [*states]) for name, state in states.items()}
        sums = Sums(len(found.names))
        for name in found.names:
            position = DataPosition(_nothing, _arrived)
            position.restore(states.get(name, states[crew.names[0]]), ())
            found.all[name] = found.member(name, position, sums)
            if workers is not None:
                found.all[name].data.regroup(found.group(name), before)
        return found

    def finish(self) -> None:
        """Steps until all have come to the end, in the same step."""
        while not all(member.over for member in self.members):
            self.step()
            assert len({member.over for member in self.members}) == 1

    def used(self) -> list[int]:
        """All samples of steps that were completed, in order of numbers."""
        return sorted(k for member in self.all.values() for batch in member.used for k in samples(batch))


def samples(batch: Any) -> list[int]:
    """The numbers in a batch."""
    while isinstance(batch, (tuple, list)) and batch and not isinstance(batch[0], (int, float)):
        batch = batch[0]
    return [int(k) for k in (batch.reshape(-1).tolist() if isinstance(batch, Tensor) else batch if isinstance(batch, list) else [batch])]


def _nothing() -> None: ...


def _arrived(kind: str) -> None: ...


def _counted(samples: int) -> None: ...


def _unfollowed(topic: str) -> None: ...
