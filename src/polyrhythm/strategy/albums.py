"""Albums on their way to worker 0, which evaluates them when the training is over."""

from __future__ import annotations

from polyrhythm.kernel.message import ASIDE, Message
from polyrhythm.kernel.names import worker
from polyrhythm.kernel.port import Port
from polyrhythm.pieces.album import Album
from polyrhythm.strategy.strategy import Strategy

ALBUM = ASIDE + "album"
_BUDGET = 1 << 30
"""Bytes that the copies of all who keep some of one model may take together."""
_PICTURE, _END = 0.0, 1.0


def new_album(strategy: Strategy, workers: int) -> Album:
    """An empty album of one of the witnesses."""
    return Album(_BUDGET // len(strategy.topology.witnesses(workers)))


async def show(port: Port, scope: str, album: Album) -> None:
    """Send what `album` holds to worker 0."""
    for first, weights in album.kept.items():
        await port.send(worker(0), Message(ALBUM, (_PICTURE, float(first)), scope, (weights,)))
    await port.send(worker(0), Message(ALBUM, (_END, float(album.stride), float(album.seen), float(album.too_large)), scope))


async def collect(port: Port, expected: set[tuple[str, str]]) -> dict[tuple[str, str], Album]:
    """The albums by sender and scope; a sender that was lost (a message with its name as text) before it had shown a whole one has none."""
    albums: dict[tuple[str, str], Album] = {}
    missing, whole = set(expected), set[tuple[str, str]]()
    while missing:
        delivery = await port.receive(ALBUM)
        assert delivery is not None
        message = delivery.message
        if not message.numbers:
            missing = {key for key in missing if key[0] != message.text}
            continue
        key = (delivery.sender, message.text)
        album = albums.setdefault(key, Album(0))
        if message.numbers[0] == _PICTURE:
            album.kept[int(message.numbers[1])] = message.tensors[0]
        else:
            album.stride, album.seen, album.too_large = int(message.numbers[1]), int(message.numbers[2]), bool(message.numbers[3])
            whole.add(key)
            missing.discard(key)
    return {key: album for key, album in albums.items() if key in whole & expected}
