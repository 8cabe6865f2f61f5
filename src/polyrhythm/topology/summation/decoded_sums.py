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
    """The first message of worker 0 to a server: the name and shape of its piece of each tensor, by number."""

    pieces: dict[str, tuple[str, tuple[int, ...]]]


class DecodedSums:
    """The `SumRule` that decodes packets, and adds them in the order of ranks. The first tensors are answered first."""

    topic = PUSHES

    def __init__(self, agreement: Agreement, endpoint: ServerEndpoint) -> None:
        self.codec = packets(agreement.codec)
        self.number = endpoint.group.rank
        self.layouts: dict[str, Layout] = {}

    async def begin(self, port: Port) -> None:
        """Receive the layouts of all tensors from worker 0."""
        first = await port.receive(LAYOUT)
        assert first is not None
        pieces = msgspec.json.decode(first.message.text, type=SumLayout).pieces
        self.layouts = {number: Layout((name,), (shape,)) for number, (name, shape) in pieces.items()}

    def respond(self, last: Message, packets: list[Packet]) -> SumResponse:
        """The sum of the decoded packets, not encoded."""
        number = last.text.partition(".")[0]
        layout = self.layouts[number]
        total = self.codec.decode(packets[0], layout)
        for packet in packets[1:]:
            total = total + self.codec.decode(packet, layout)
        return SumResponse((int(number),), f"{last.text}.{self.number}", total)
