"""A slice of a block store: it keeps blocks, and has workers do the tasks that make new ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from torch import Tensor

from polyrhythm.core.kernel.events import Merged
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.view import View
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.topology import ServerEndpoint
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.block_store.block_records import (
    BLOCKS,
    REQUESTS,
    Begin,
    BlockRequest,
    Gradient,
    Reduce,
    SlicePublished,
    Stored,
    TaskBlocks,
    Weights,
    from_numbers,
    to_numbers,
    to_worker,
)
from polyrhythm.topology.block_store.block_task import SliceBlocks
from polyrhythm.topology.block_store.gradient_count import GradientCount
from polyrhythm.topology.servers.server_records import Done, Drain, ShardRecipe, Wake


@dataclass(slots=True)
class OpenTask:
    """A task under way: whose gradients are summed, who has been given it, and until when the last of them has time."""

    workers: list[str]
    given: list[str] = field(default_factory=list)
    deadline: float = 0.0


class BlockServer:
    """Blocks are versioned by step: `step` is that of `blocks`, and `gradients` are those of the next, by worker.

    The first of the servers is the driver too: it finds when the gradients of a step are complete in all slices. A task goes to the worker
    of the slice's rank; when that is lost, or has not published after `late` seconds, to the next in rank. What is published twice is
    equal, and the second time ignored. `publisher` has the blocks of `step`, and need not be sent them.
    """

    def __init__(self, endpoint: ServerEndpoint, late: float) -> None:
        self.late = late
        self.port = endpoint.port
        self.number = endpoint.group.rank
        self.servers = endpoint.group.members
        self.everyone = endpoint.workers
        self.record = endpoint.record
        self.checkpoints = endpoint.checkpoints
        self.view = View.of(endpoint.workers)
        self.driver = GradientCount(endpoint.workers, len(self.servers)) if self.number == 0 else None
        self.blocks: SliceBlocks | None = None
        self.step = 0
        self.publisher = ""
        self.gradients: dict[str, tuple[tuple[float, ...], tuple[Tensor, ...]]] = {}
        self.task: OpenTask | None = None
        self.joining: list[str] = []
        self.drained: dict[str, int] = {}
        self.done: set[str] = set()

    async def live(self) -> None:
        """Until every worker that remains is done."""
        await follow_losses(self.port, self._notice)
        while set(self.view.members) - self.done:
            delivery = await self.port.receive(REQUESTS, timeout=self._patience())
            if delivery is None:
                await self._give()
            else:
                await self._take(delivery)

    def _patience(self) -> float | None:
        """Seconds until the task is given to another; None where there is none, or nobody else who could do it."""
        if self.task is None or not set(self.view.members) - set(self.task.given):
            return None
        return max(0.0, self.task.deadline - self.port.now())

    async def _notice(self, name: str) -> None:
        await self._send(self.port.name, Wake(), name)

    async def _send(self, to: str, request: BlockRequest, text: str = "") -> None:
        await self.port.send(to, Message(REQUESTS, to_numbers(request), text))

    async def _take(self, delivery: Delivery) -> None:
        message, sender = delivery.message, delivery.sender
        if not self.view.present(sender) and sender not in self.servers:
            return  # the last message of a worker that was lost meanwhile
        match from_numbers(message.numbers):
            case Begin():
                await self._begin(delivery)
            case Gradient(step) if step <= self.step and self.blocks is not None:  # repeated, after the crew has changed
                await self._send(self.servers[0], Stored(step), sender)
                await self._tell(sender, self.blocks)
            case Gradient(step, rates):
                self.gradients[sender] = rates, message.tensors
                await self._send(self.servers[0], Stored(step), sender)
            case Stored(step):
                assert self.driver is not None, "only the first server is notified"
                self.driver.stored(message.text, step)
                await self._drive()
            case Reduce(step) if step > self.step:
                self.task = OpenTask(message.text.split())
                await self._give()
            case SlicePublished(step):
                await self._publish(sender, step, message)
            case Drain(step):
                self.drained[sender] = step
                await self._write_if_drained()
            case Done():
                self.done.add(sender)
            case Wake():
                await self._lose(message.text)

    async def _begin(self, delivery: Delivery) -> None:
        if delivery.message.text:
            [weights] = delivery.message.tensors
            recipe = msgspec.json.decode(delivery.message.text, type=ShardRecipe)
            assert Layout(recipe.names, recipe.shapes).numel == weights.numel(), "a slice of the vector"
            self.blocks = SliceBlocks(weights.clone())
            self.checkpoints.resume(self._restore, self._export)
        self.joining.append(delivery.sender)
        if self.blocks is not None:
            for name in self.joining:
                await self._tell(name, self.blocks)
            self.joining.clear()

    async def _tell(self, worker: str, blocks: SliceBlocks) -> None:
        await self.port.send(worker, Message(BLOCKS, to_worker(Weights(self.number, self.step)), tensors=(blocks.weights,)))

    async def _drive(self) -> None:
        """Have all slices begin their tasks if the gradients of a step are complete."""
        if self.driver is None:
            return
        step, workers = self.driver.complete()
        if workers:
            for name in self.servers:
                await self._send(name, Reduce(step), " ".join(workers))

    async def _give(self) -> None:
        """Give the task to the next worker that has not got it yet, if there is one."""
        task, blocks = self.task, self.blocks
        assert task is not None, "only an open task has a deadline"
        assert blocks is not None, "gradients come after the weights"
        count = len(self.everyone)
        order = [self.everyone[(self.number + k) % count] for k in range(count)]
        worker = next((name for name in order if self.view.present(name) and name not in task.given), None)
        if worker is None:
            return
        task.given.append(worker)
        task.deadline = self.port.now() + self.late
        held = () if worker == self.publisher else blocks.all
        gradients = [self.gradients[name] for name in task.workers]
        ranks = tuple(self.everyone.index(name) for name in task.workers)
        given = TaskBlocks(self.number, self.step + 1, len(held), ranks, tuple(rates for rates, _ in gradients))
        packets = tuple(tensor for _, packet in gradients for tensor in packet)
        await self.port.send(worker, Message(BLOCKS, to_worker(given), blocks.text if held else "", (*held, *packets)))

    async def _publish(self, worker: str, step: int, message: Message) -> None:
        if step != self.step + 1 or self.task is None:
            return  # another has done the same task before
        weights, *tensors = message.tensors
        self.blocks, self.step, self.publisher = SliceBlocks(weights, message.text, tuple(tensors)), step, worker
        self.record(Merged(self.port.now(), self.port.name, step, [0] * len(self.task.workers), 0.0))
        self.gradients.clear()
        self.task = None
        for name in self.view.members:
            await self._tell(name, self.blocks)

    async def _lose(self, worker: str) -> None:
        self.view = self.view.without(worker)
        self.drained.pop(worker, None)
        if self.driver is not None:
            self.driver.view = self.view
            await self._drive()
        if self.task is not None and self.task.given and self.task.given[-1] == worker:
            await self._give()
        await self._write_if_drained()

    async def _write_if_drained(self) -> None:
        """Write the state if nothing more can come before the checkpoint."""
        if not self.drained or set(self.view.members) - self.drained.keys():
            return
        problem = self.checkpoints.write(max(self.drained.values()), self._export())
        self.drained.clear()
        for name in self.view.members:
            await self.port.send(name, Message(f"d{self.number}", text=problem))

    def _export(self) -> StateTree:
        assert self.blocks is not None, "written after steps"
        return {"step": self.step, "weights": self.blocks.weights, "text": self.blocks.text, "tensors": list(self.blocks.tensors)}

    def _restore(self, state: StateTree) -> None:
        if self.blocks is not None and state["weights"].shape != self.blocks.weights.shape:
            raise ValueError(f"{state['weights'].numel()} weights, where this model has {self.blocks.weights.numel()}")
        self.step = state["step"]
        self.blocks = SliceBlocks(state["weights"], state["text"], tuple(state["tensors"]))
        if self.driver is not None:
            self.driver.step = self.step
