"""A server of a whole batch: it holds its part of the vectors; the first one also deals the portions."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from torch import Tensor

from polyrhythm.core.kernel.events import Merged
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.trees import StateTree
from polyrhythm.core.whole_batch.batch_messages import REQUESTS, Ask
from polyrhythm.core.whole_batch.orders import from_numbers
from polyrhythm.core.whole_batch.portion_desk import PortionDesk
from polyrhythm.core.whole_batch.step_marks import CoordinatorNote, StepMarks
from polyrhythm.core.whole_batch.vectors import ServerVectors


class _Waiting(NamedTuple):
    """A worker that waits for weights: `published` of an evaluation, or settled after a step."""

    worker: str
    published: bool
    number: int


class BatchServer:
    """Holds one part of the vectors; with a `desk` it deals too. If it `returns` it can return to the last steps."""

    def __init__(self, weights: Tensor, endpoint: ServerEndpoint, desk: PortionDesk | None, returns: bool) -> None:
        self.port = endpoint.port
        self.rank, self.first = endpoint.group.rank, endpoint.group.first
        self.record = endpoint.record
        self.snapshots = endpoint.snapshots
        self.checkpoints = endpoint.checkpoints
        self.view = View.of(endpoint.workers)
        self.vectors = ServerVectors(weights)
        self.marks = StepMarks(self.vectors) if returns else None
        self.desk = desk
        self.waiting: list[_Waiting] = []
        self.done: set[str] = set()
        self.drained: dict[str, int] = {}
        self.asked: dict[str, int] = {}

    async def live(self) -> None:
        """Serve until every remaining worker is done."""
        await follow_losses(self.port, self._lose)
        self.checkpoints.resume(self.restore, self.export)
        while not self.done.issuperset(self.view.members):
            delivery = await self.port.receive(REQUESTS)
            assert delivery is not None
            await self._take(delivery)
            await self._write_drained()
            await self._serve_waiting()

    async def _lose(self, name: str) -> None:
        self.view = self.view.without(name)
        self.waiting = [each for each in self.waiting if each.worker != name]
        await self.port.send(self.port.name, Message(REQUESTS, text=name))

    async def _take(self, delivery: Delivery) -> None:
        worker, message = delivery.sender, delivery.message
        if not message.numbers:  # the notice of a loss
            if self.desk is not None:
                await self.desk.lose(message.text)
            return
        kind, *numbers = message.numbers
        match Ask(int(kind)):
            case Ask.ORDERS:
                await self._obey(worker, numbers, message.text)
            case Ask.FETCH:
                self.waiting.append(_Waiting(worker, True, int(numbers[0])))
            case Ask.RESULT:
                self.waiting.append(_Waiting(worker, False, int(numbers[0])))
            case Ask.PUSH:
                await self._add(worker, numbers, message.tensors[0])
            case Ask.DONE:
                self.done.add(worker)
            case Ask.DRAIN:
                self.drained[worker] = int(numbers[0])
            case Ask.NOTE | Ask.STEPS | Ask.RETURN as asked:
                await self._mark(asked, worker, numbers, message)
            case asked:
                assert self.desk is not None, "only the first server deals"
                await self.desk.take(asked, worker, numbers, message.text)

    async def _mark(self, asked: Ask, worker: str, numbers: list[float], message: Message) -> None:
        assert self.marks is not None, "a coordinator of a crew that does not change neither notes steps nor returns"
        if asked is Ask.NOTE:
            self.marks.noted = CoordinatorNote(int(numbers[0]), numbers[1], message.text, message.tensors)
        elif asked is Ask.STEPS:
            await self.port.send(worker, Message(f"s{self.rank}", (float(self.vectors.evaluation), *map(float, self.marks.steps))))
        else:
            note = self.marks.back(int(numbers[0]))
            if self.desk is not None:
                await self.desk.back(note.step, note.loss)
            await self.port.send(worker, Message(f"n{self.rank}", (note.loss,), note.text, note.tensors))

    async def _obey(self, worker: str, numbers: list[float], text: str) -> None:
        contributions = [(name, number) for name, number in msgspec.json.decode(text)] if text else []
        now, step = self.port.now(), self.vectors.step
        if self.snapshots.due(now):
            self.snapshots.look(now, self.vectors.settled)
        answers = self.vectors.obey(from_numbers(numbers), contributions)
        if answers:
            await self.port.send(worker, Message(f"a{self.rank}", tuple(answers)))
        if self.marks is not None:
            self.marks.look()
        if self.vectors.step > step:
            self.record(Merged(self.port.now(), self.port.name, self.vectors.step, [0], self.port.now() - now))
        if contributions:
            await self.port.merged(len(contributions))

    async def _add(self, worker: str, numbers: list[float], part: Tensor) -> None:
        evaluation, number = map(int, numbers)
        if evaluation == self.vectors.evaluation and self.view.present(worker):
            self.vectors.add(worker, number, part)
            await self.port.send(self.first, Message(REQUESTS, (float(Ask.HAVE), *numbers), worker))

    async def _serve_waiting(self) -> None:
        for each in [*self.waiting]:
            vectors = self.vectors
            reached, weights = (vectors.evaluation, vectors.published) if each.published else (vectors.step, vectors.settled)
            if reached >= each.number:
                self.waiting.remove(each)
                await self.port.send(each.worker, Message(f"w{self.rank}", tensors=(weights,)))

    async def _write_drained(self) -> None:
        if self.drained and self.drained.keys() >= set(self.view.members):
            problem = self.checkpoints.write(max(self.drained.values()), self.export())
            self.drained.clear()
            for name in self.view.members:
                await self.port.send(name, Message(f"d{self.rank}", text=problem))

    def export(self) -> StateTree:
        marks = {} if self.marks is None else {"marks": self.marks.export()}
        return {"vectors": self.vectors.export(), "desk": None if self.desk is None else self.desk.export(), **marks}

    def restore(self, state: StateTree) -> None:
        self.vectors.restore(state["vectors"])
        if self.marks is not None:
            self.marks.restore(state.get("marks", self.marks.export()))
        if self.desk is not None and state["desk"] is not None:
            self.desk.restore(state["desk"])
