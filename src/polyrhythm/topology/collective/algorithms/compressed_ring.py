"""The ring, with every part compressed on each hop."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.settings import checked
from polyrhythm.topology.collective.algorithms.hops import Hop, Truncated


@dataclass(frozen=True, slots=True)
@checked
class CompressedRing:
    """Ring, in which each worker decodes the sum that arrives, adds its own part and encodes the sum again (Pipe-SGD; Li et al., 2018).

    A sum that is complete is encoded once, and goes round as it is; its owner takes the decoded one too, so that all have the same bits.
    Sums are rounded P - 1 times more than those of Ring, and what is rounded off is lost: they equal its sums only as far as `hop` keeps
    them. Always made by messages, so that both runtimes round alike; only where the simulator charges collectives in closed form are sums
    whole.
    """

    hop: Hop = field(default_factory=Truncated)

    @property
    def rounding(self) -> Rounding:
        return self.hop.rounding

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """2 (P - 1) (a + m / B), with m for the bytes of an encoded part."""
        return 2 * (workers - 1) * (latency + self.hop.nbytes(nbytes // workers) / bandwidth)

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Every part travels 2 (P - 1) times."""
        hops, empty = 2 * (workers - 1), wire_bytes(Message(""))
        packets = [self.hop.encode(part) for part in torch.tensor_split(value.reshape(-1), workers)]
        contents = sum(wire_bytes(Message("", tensors=packet)) - empty for packet in packets)
        return workers * sum(wire_bytes(Message(f"{topic}.{hop}")) for hop in range(hops)) + hops * contents, hops * workers

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """None: a sum without rounding in between would be another."""
        return None

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """Part k is summed in rank order beginning with worker k, and its encoded sum goes once more around."""
        rank, workers = group.rank, group.size
        following, previous = group.members[(rank + 1) % workers], group.members[(rank - 1) % workers]
        parts = list(torch.tensor_split(value.reshape(-1), workers))
        packet: Packet = self.hop.encode(parts[rank])
        for hop in range(2 * (workers - 1)):
            await port.send(following, Message(f"{topic}.{hop}", tensors=packet))
            delivery = await port.receive(f"{topic}.{hop}", previous)
            assert delivery is not None
            packet, coming = delivery.message.tensors, (rank - hop - 1) % workers
            if hop < workers - 1:
                packet = self.hop.encode(self.hop.decode(packet) + parts[coming])
            if hop >= workers - 2:
                parts[coming] = self.hop.decode(packet)
        return torch.cat(parts).view(value.shape)
