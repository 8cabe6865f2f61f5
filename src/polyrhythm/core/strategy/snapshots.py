"""Sends snapshots to the first worker, which evaluates them when the training is over."""

from __future__ import annotations

from polyrhythm.core.kernel.message import ASIDE, Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.snapshots import Snapshots

TOPIC = ASIDE + "snapshots"
_BUDGET = 1 << 30
"""The largest number of bytes of all copies of one model together."""
_ONE, _END = 0.0, 1.0


def new_snapshots(actors: int) -> Snapshots:
    """Empty snapshots, of one of so many actors whose weights make up the result."""
    return Snapshots(_BUDGET // actors)


async def show(port: Port, to: str, scope: str, snapshots: Snapshots) -> None:
    """Send all that `snapshots` holds to the worker `to`."""
    for first, weights in snapshots.kept.items():
        await port.send(to, Message(TOPIC, (_ONE, float(first)), scope, (weights,)))
    await port.send(to, Message(TOPIC, (_END, float(snapshots.stride), float(snapshots.seen), float(snapshots.too_large)), scope))


async def collect(port: Port, expected: set[tuple[str, str]]) -> dict[tuple[str, str], Snapshots]:
    """The snapshots by sender and scope; a sender that was lost (a message with its name as text) before it had sent all has none."""
    found: dict[tuple[str, str], Snapshots] = {}
    missing, whole = set(expected), set[tuple[str, str]]()
    while missing:
        delivery = await port.receive(TOPIC)
        assert delivery is not None
        message = delivery.message
        if not message.numbers:
            missing = {key for key in missing if key[0] != message.text}
            continue
        key = (delivery.sender, message.text)
        snapshots = found.setdefault(key, Snapshots(0))
        if message.numbers[0] == _ONE:
            snapshots.kept[int(message.numbers[1])] = message.tensors[0]
        else:
            snapshots.stride, snapshots.seen, snapshots.too_large = (
                int(message.numbers[1]),
                int(message.numbers[2]),
                bool(message.numbers[3]),
            )
            whole.add(key)
            missing.discard(key)
    return {key: snapshots for key, snapshots in found.items() if key in whole & expected}
