"""A worker's requests to the servers of a whole batch, and their answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.whole_batch.batch_messages import DEALT, REQUESTS, Answer, Ask, Reply
from polyrhythm.core.whole_batch.orders import ANSWERED, VectorOrder, to_numbers
from polyrhythm.core.whole_batch.step_marks import CoordinatorNote
from polyrhythm.core.whole_batch.vectors import Contribution


class BatchRequests:
    """`servers` hold consecutive parts of the vectors, cut as torch.tensor_split does; the first of them deals."""

    def __init__(self, servers: Sequence[str], port: Port) -> None:
        self.servers = servers
        self.port = port

    async def order(self, orders: Sequence[VectorOrder], contributions: Sequence[Contribution] = ()) -> list[list[float]]:
        """Have every server carry out orders; the answers of each server, if there are any."""
        text = msgspec.json.encode(contributions).decode() if contributions else ""
        message = Message(REQUESTS, (float(Ask.ORDERS), *to_numbers(orders)), text)
        for server in self.servers:
            await self.port.send(server, message)
        if not any(order.deed in ANSWERED for order in orders):
            return []
        return [list((await self._receive(f"a{k}", server)).numbers) for k, server in enumerate(self.servers)]

    async def fetch(self, evaluation: int) -> Tensor:
        """The weights (numel,) of an evaluation, when they are published."""
        return await self._weights(Ask.FETCH, evaluation)

    async def result(self, step: int) -> Tensor:
        """The weights (numel,) after a step, when they are settled."""
        return await self._weights(Ask.RESULT, step)

    async def _weights(self, kind: Ask, number: int) -> Tensor:
        await self._ask_all(kind, (number,))
        return torch.cat([(await self._receive(f"w{k}", server)).tensors[0] for k, server in enumerate(self.servers)])

    async def push(self, evaluation: int, number: int, total: Tensor) -> None:
        """Send each server its part of a sum (numel,), which nobody writes to any more."""
        for server, part in zip(self.servers, total.tensor_split(len(self.servers)), strict=True):
            await self.port.send(server, Message(REQUESTS, (float(Ask.PUSH), float(evaluation), float(number)), tensors=(part,)))

    async def begin(self, evaluation: int) -> None:
        """Have the dealer begin an evaluation."""
        await self._ask_dealer(Ask.BEGIN, (evaluation,))

    async def end_step(self, step: int, loss: float) -> None:
        """Have the dealer tell all that a step is over."""
        await self._ask_dealer(Ask.STEP, (step, loss))

    async def note(self, note: CoordinatorNote) -> None:
        """Have every server keep what the coordinator is after the step that it settles next."""
        for server in self.servers:
            await self.port.send(server, Message(REQUESTS, (float(Ask.NOTE), float(note.step), note.loss), note.text, note.tensors))

    async def recover(self) -> tuple[int, CoordinatorNote]:
        """Have all servers return to the last step that all have settled: the last evaluation that one has, and the note of the step."""
        await self._ask_all(Ask.STEPS)
        known = [(await self._receive(f"s{k}", server)).numbers for k, server in enumerate(self.servers)]
        step = min(steps[-1] for _, *steps in known)
        await self._ask_all(Ask.RETURN, (step,))
        notes = [await self._receive(f"n{k}", server) for k, server in enumerate(self.servers)]
        return int(max(known)[0]), CoordinatorNote(int(step), notes[0].numbers[0], notes[0].text, notes[0].tensors)

    async def following(self, step: int, evaluation: int) -> Answer:
        """Wait for an evaluation after that one, or the end of the step."""
        await self._ask_dealer(Ask.NEXT, (step, evaluation))
        return await self._answer()

    async def portion(self, evaluation: int, done: int, loss: float) -> Answer:
        """Bring a portion that is done, and wait for the next deal, or the end of the evaluation."""
        await self._ask_dealer(Ask.PORTION, (evaluation, done, loss))
        return await self._answer()

    async def end(self) -> None:
        """Tell every server that this worker asks for nothing more."""
        await self._ask_all(Ask.DONE)

    async def drain(self, step: int) -> str:
        """Have the servers write their state. Returns the first error as a sentence; else ""."""
        await self._ask_all(Ask.DRAIN, (step,))
        problems = [(await self._receive(f"d{k}", server)).text for k, server in enumerate(self.servers)]
        return next(filter(None, problems), "")

    async def _answer(self) -> Answer:
        message = await self._receive(DEALT, self.servers[0])
        kind, *numbers = message.numbers
        return Answer(Reply(int(kind)), tuple(numbers), message.text)

    async def _receive(self, topic: str, server: str) -> Message:
        delivery = await self.port.receive(topic, server)
        assert delivery is not None
        return delivery.message

    async def _ask_dealer(self, kind: Ask, numbers: Sequence[float]) -> None:
        await self.port.send(self.servers[0], Message(REQUESTS, (float(kind), *map(float, numbers))))

    async def _ask_all(self, kind: Ask, numbers: Sequence[float] = ()) -> None:
        for server in self.servers:
            await self.port.send(server, Message(REQUESTS, (float(kind), *map(float, numbers))))
