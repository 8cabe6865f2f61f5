"""Sums of what workers push encoded, tensor by tensor."""

from __future__ import annotations

import msgspec

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.codec import packets
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.topology import Agreement, ServerEndpoint
from polyrhythm.core.tensors import Layout
from polyrhythm.topology.summation.sum_server import SumResponse

LAYOUT, PUSHES = "layout", "push"
"""The topics. The text of a push is the tensor's number and the round, with a point between them; with one and the
server's rank after it, it is the topic of the sum.
"""


class SumLayout(msgspec.Struct, frozen=True):
    """What worker 0 sends a server at the beginning: the name and shape of its piece of each tensor, by number."""

    pieces: dict[str, tuple[str, tuple[int, ...]]]


class DecodedSums:
    """As `sum_server.SumRule`: packets are decoded and added in the order of ranks. The first tensors are answered first."""

    topic = PUSHES

    def __init__(self, agreement: Agreement, endpoint: ServerEndpoint) -> None:
        self.codec = packets(agreement.codec)
        self.number = endpoint.group.rank
        self.layouts: dict[str, Layout] = {}

    async def begin(self, port: Port) -> None:
        """Hear from worker 0 what will come."""
        first = await port.receive(LAYOUT)
        assert first is not None
        pieces = msgspec.json.decode(first.message.text, type=SumLayout).pieces
        self.layouts = {number: Layout((name,), (shape,)) for number, (name, shape) in pieces.items()}

    def respond(self, last: Message, packets: list[Packet]) -> SumResponse:
        """The sum, as it is."""
        number = last.text.partition(".")[0]
        layout = self.layouts[number]
        total = self.codec.decode(packets[0], layout)
        for packet in packets[1:]:
            total = total + self.codec.decode(packet, layout)
        return SumResponse((int(number),), f"{last.text}.{self.number}", total)
