"""The cycles in which a worker negotiates what is ready, and sums it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.protocols.algorithm import AnyReduction
from polyrhythm.core.protocols.requests import AllReduceRequest, CollectiveRequest
from polyrhythm.core.protocols.topology import WorkerEndpoint
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.collective.fusion_buffer import joined, parted
from polyrhythm.topology.collective.readiness.grouping import Grouping
from polyrhythm.topology.collective.readiness.protocol import Negotiator, ReadyTensor
from polyrhythm.topology.collective.tensor_channel import TensorSum
from polyrhythm.topology.collective.tuning import Tuner


class Cycles:
    """Runs from the first gradient of a step to the sum of its last one; between steps nothing is sent.

    `came` are the tensors that are there and were not released yet, with the time at which they came; `held` those of groups that are not
    complete. All workers have the same number of cycles in a step: each ends when everyone has asked, and the step with the last release.
    """

    def __init__(self, endpoint: WorkerEndpoint, reduction: AnyReduction, negotiator: Negotiator, groups: Grouping, tuner: Tuner) -> None:
        self.port = endpoint.port
        self.group = endpoint.group
        self.reduction = reduction
        self.negotiator = negotiator
        self.grouping = groups
        self.tuner = tuner
        self.names: list[str] = []
        self.partners: dict[str, list[str]] = {}
        self.held: dict[str, TensorSum] = {}
        self.came: dict[str, tuple[TensorSum, float]] = {}
        self.nbytes = 0
        self.over = Latch()
        self.over.open()

    def open(self, clients: Sequence[CollectiveClient]) -> None:
        """Tensors go by their names, which are the same at all workers."""
        self.names = [client.layout.names[0] for client in clients]
        for names in self.grouping.cut(self.names[::-1]):
            self.partners.update(dict.fromkeys(names, names))

    async def launch(self, number: int, tensor: TensorSum) -> None:
        """Report it in the next cycle, when its group is complete."""
        name = self.names[number]
        self.held[name] = tensor
        if all(partner in self.held for partner in self.partners[name]):
            now = self.port.now()
            self.came.update((partner, (self.held.pop(partner), now)) for partner in self.partners[name])
        if self.over.is_open:
            self.over, self.nbytes = Latch(), 0
            await self.port.spawn("cycles", self._run())

    async def conclude(self) -> None:
        """Wait for the last cycle of a step, whose sums are there by then."""
        await self.port.wait(self.over)
        await self.tuner.step(self.nbytes)

    async def _run(self) -> None:
        left, over = set(self.names), self.over
        while left:
            began = self.port.now()
            ready = [ReadyTensor(name, _signature(tensor)) for name, (tensor, _) in self.came.items()]
            released = await self.negotiator.negotiate(ready)
            taken = {name: self.came.pop(name) for name in released}
            left.difference_update(released)
            for name, (_, since) in taken.items():
                self.port.progressed(name, "negotiation", since)
            free = self.port.now()
            for names in self._fitting({name: tensor for name, (tensor, _) in taken.items()}):
                await self._sum({name: taken[name][0] for name in names}, free)
            pause = began + self.tuner.knobs.cycle_seconds - self.port.now()
            if left and pause > 0:
                await self.port.sleep(pause)
        over.open()

    def _fitting(self, tensors: dict[str, TensorSum]) -> Iterator[list[str]]:
        """The names of what goes together, in the order in which they were released: at most as many bytes as the buffer has."""
        together: list[str] = []
        filled = 0
        for name, tensor in tensors.items():
            if together and filled + tensor.value.nbytes > self.tuner.knobs.nbytes:
                yield together
                together, filled = [], 0
            together.append(name)
            filled += tensor.value.nbytes
        if together:
            yield together

    async def _sum(self, tensors: dict[str, TensorSum], free: float) -> None:
        """Drive the aggregations of some tensors together: what is to be summed at the same time is so in one buffer for each type."""
        for name in tensors:
            self.port.progressed(name, "queue", free)
        running = {name: tensor.client.begin(tensor.value, tensor.clock) for name, tensor in tensors.items()}
        responses: dict[str, Any] = dict.fromkeys(running)
        while responses:
            requests: dict[str, CollectiveRequest] = {}
            for name, response in responses.items():
                try:
                    requests[name] = running[name].send(response)
                except StopIteration as end:
                    tensors[name].end(tensors[name].client.end(end.value))
            responses = await self._perform(tensors, requests)
        self.nbytes += sum(tensor.value.nbytes for tensor in tensors.values())

    async def _perform(self, tensors: dict[str, TensorSum], requests: dict[str, CollectiveRequest]) -> dict[str, Any]:
        sums = {name: request.value for name, request in requests.items() if isinstance(request, AllReduceRequest)}
        responses: dict[str, Any] = {}
        for dtype in dict.fromkeys(value.dtype for value in sums.values()):
            responses |= await self._reduce(tensors, {name: value for name, value in sums.items() if value.dtype == dtype})
        for name, request in requests.items():
            if name not in sums:
                since = self.port.now()
                responses[name] = await request.perform(tensors[name].client)
                self.port.progressed(name, "exchange", since)
        return responses

    async def _reduce(self, tensors: dict[str, TensorSum], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        port, values, first = self.port, list(sums.values()), next(iter(sums))
        since = port.now()
        buffer = joined([value.reshape(-1) for value in values], self.group.size)
        copied = self._progressed(sums, "copy in", since)
        total = await self.reduction.reduce(port, self.group, buffer, tensors[first].client.topic())
        reduced = self._progressed(sums, "exchange", copied)
        parts = parted(total.view(-1), [value.reshape(-1) for value in values], self.group.size)
        self._progressed(sums, "copy out", reduced)
        return {name: part.view(value.shape) for (name, value), part in zip(sums.items(), parts, strict=True)}

    def _progressed(self, names: dict[str, Tensor], phase: str, since: float) -> float:
        for name in names:
            self.port.progressed(name, phase, since)
        return self.port.now()

    def export(self) -> StateTree:
        """The tuner's state; between steps nothing is under way, and caches are filled again."""
        return self.tuner.export()

    def restore(self, state: StateTree) -> None:
        self.tuner.restore(state)


def _signature(tensor: TensorSum) -> str:
    return f"{str(tensor.value.dtype).removeprefix('torch.')} {tensor.client.layout.shapes[0]}"
