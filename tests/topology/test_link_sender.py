"""A lane is busy until a packet has left, and not only until the system has taken it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import torch

from polyrhythm.codec import Identity
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.controller import AS_COMPOSED
from polyrhythm.core.tensors import Layout
from polyrhythm.topology.peers.link_sender import LinkSender


class Line:
    """A port whose system takes everything at once and says at which `rate` it was delivered lately."""

    def __init__(self, rate: float | None) -> None:
        self.rate, self.time = rate, 0.0

    def now(self) -> float:
        return self.time

    def rng(self, name: str) -> torch.Generator:
        return torch.Generator()

    async def send(self, to: str, message: Message) -> None:
        self.time += 0.001

    async def flush(self, to: str, rated: bool) -> float | None:
        return self.rate

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


@pytest.mark.parametrize(("rate", "seconds"), [(None, 0.001), (1e9, 0.001), (1e4, 0.04)])
def test_what_the_buffers_took_is_waited_for_by_the_rate_at_which_the_system_delivers(rate: float | None, seconds: float) -> None:
    port = Line(rate)
    inbox = SimpleNamespace(port=port, codec=Identity(), layout=Layout((), ()))
    initial = SimpleNamespace(model_state=None, controls=AS_COMPOSED)
    sender = LinkSender("worker/1", inbox, initial, Group.of_workers(2, rank=0))  # type: ignore[arg-type]
    message = Message("u", tensors=(torch.zeros(100),))
    asyncio.run(sender._leave(message, 400))
    assert port.time == pytest.approx(seconds)
