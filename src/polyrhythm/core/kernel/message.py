"""Messages between actors: a topic, a few numbers, a short text, tensors.

Actors make them and send them through their `Port`; the runtimes deliver them, and use them between themselves too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(slots=True)
class Message:
    """One message. Neither its sender nor its receiver may write to its tensors: both may hold the same memory.

    `topic` names the mailbox at the receiver (at most 200 bytes); `numbers` are clocks, counts, rates; `text` is for
    settings (at most 4 MiB); `tensors` are the payload, contiguous, on the CPU when they reach the wire.
    """

    topic: str
    numbers: tuple[float, ...] = ()
    text: str = ""
    tensors: tuple[Tensor, ...] = ()


@dataclass(slots=True)
class Delivery:
    """A message and the name of the actor that sent it."""

    sender: str
    message: Message


ASIDE = "~"
"""The prefix of topics that are not part of the training: their messages are not counted, and take no virtual time."""

NOTICE = ASIDE + "!"
"""The prefix of topics of a runtime's notices, which are received in every view."""

VIEW, ADMITTED = NOTICE + "view", NOTICE + "crew"
"""The notice of the next view to servers, and to workers that wait at a cut: also that there is none."""

CALL = "user"
"""The prefix of topics of the user's own calls: "user/mean/3" is the third call, `worker.mean()`."""

HEADER_BYTES = 24
NUMBER_BYTES = 8
TENSOR_HEADER_BYTES = 4
DIMENSION_BYTES = 8


def wire_bytes(message: Message) -> int:
    """The exact length of `message` on the wire, headers included, without serializing it (a law holds it to `wire.encode`)."""
    total = HEADER_BYTES + len(message.topic.encode()) + len(message.text.encode()) + NUMBER_BYTES * len(message.numbers)
    for tensor in message.tensors:
        total += TENSOR_HEADER_BYTES + DIMENSION_BYTES * tensor.dim() + tensor.numel() * tensor.element_size()
    return total


DATAGRAM_BYTES = 60_000
"""The most that a message may have on the wire that is sent as a datagram: what one of UDP holds, less what protects it."""


DTYPES: tuple[torch.dtype, ...] = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
)  # fmt: skip
"""The element types a message may hold; their place in this list is their code on the wire."""
