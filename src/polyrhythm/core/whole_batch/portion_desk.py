"""The dealer as an actor: it tells workers which evaluation is under way, and deals its portions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.trees import StateTree
from polyrhythm.core.whole_batch.batch_messages import DEALT, Ask, Reply
from polyrhythm.core.whole_batch.portion_dealer import PortionDeal, PortionDealer


class PortionDesk:
    """`evaluation` counts those that have begun, `step` the steps that are over. `idle` workers wait for more than they know of."""

    def __init__(self, dealer: PortionDealer, port: Port) -> None:
        self.dealer = dealer
        self.port = port
        self.evaluation, self.step = 0, 0
        self.running = False
        self.loss = 0.0
        self.known = 0.0
        self.idle: dict[str, tuple[int, int]] = {}
        """By worker the step that it is in, and the last evaluation in which it took part."""

    async def take(self, asked: Ask, worker: str, numbers: Sequence[float], text: str) -> None:
        """Take a request."""
        if worker not in self.dealer.hands and asked is not Ask.HAVE:
            return  # it was lost in the meantime
        match asked:
            case Ask.BEGIN:
                self.evaluation, self.running = int(numbers[0]), True
                self.dealer.begin()
                await self._notify()
            case Ask.NEXT:
                self.idle[worker] = (int(numbers[0]), int(numbers[1]))
                await self._notify()
            case Ask.PORTION:
                await self._portion(worker, int(numbers[0]), int(numbers[1]), numbers[2])
            case Ask.HAVE:
                if int(numbers[0]) == self.evaluation and self.running:
                    self.dealer.confirm((text, int(numbers[1])))
                    await self._end_if_over()
            case Ask.STEP:
                self.step, self.loss = int(numbers[0]), numbers[1]
                await self._notify()

    async def back(self, step: int, loss: float) -> None:
        """The vectors have returned to that step, which is the last that is over."""
        self.step, self.loss, self.running = step, loss, False
        await self._notify()

    async def lose(self, worker: str) -> None:
        """A worker is lost: others compute what it has not stored."""
        self.idle.pop(worker, None)
        if worker in self.dealer.hands:
            self.dealer.lose(worker)
            await self._wake()

    async def _portion(self, worker: str, evaluation: int, done: int, loss: float) -> None:
        if not self.running or evaluation != self.evaluation:
            self.dealer.late(worker, self.port.now())
            await self._evaluated(worker)
            return
        deal = self.dealer.ask(worker, done, loss, self.port.now())
        if deal is not None:
            await self._deal(worker, deal)
        await self._wake()

    async def _wake(self) -> None:
        for worker, deal in self.dealer.wake(self.port.now()):
            await self._deal(worker, deal)

    async def _deal(self, worker: str, deal: PortionDeal) -> None:
        await self.port.send(worker, Message(DEALT, (float(Reply.DEAL), *map(float, deal))))

    async def _end_if_over(self) -> None:
        if self.dealer.over:
            self.running, self.known = False, self.dealer.loss
            for worker in [*self.dealer.parked]:
                await self._evaluated(worker)
            self.dealer.parked.clear()

    async def _evaluated(self, worker: str) -> None:
        contributions = msgspec.json.encode(self.dealer.contributions).decode() if worker == next(iter(self.dealer.hands)) else ""
        await self.port.send(worker, Message(DEALT, (float(Reply.EVALUATED), self.known), contributions))

    async def _notify(self) -> None:
        """Answer the idle workers for whom there is something new."""
        for worker, (step, seen) in [*self.idle.items()]:
            if step <= self.step:
                answer = (float(Reply.STEP_OVER), self.loss)
            elif self.running and seen < self.evaluation:
                answer = (float(Reply.EVALUATE), float(self.evaluation))
            else:
                continue
            del self.idle[worker]
            await self.port.send(worker, Message(DEALT, answer))

    def export(self) -> StateTree:
        return {"evaluation": self.evaluation, "step": self.step, "loss": self.loss}

    def restore(self, state: StateTree) -> None:
        self.evaluation, self.step, self.loss = state["evaluation"], state["step"], state["loss"]
