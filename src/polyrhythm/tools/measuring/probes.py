"""Measures latency and rate between two workers, by messages over their ports.

The messages are sent as those of a run, over the same connections, so the figures include what messages of a run include: also the queues
between threads, and several connections where a path needs them. Sizes count whole frames, with our own header of 24 bytes and what it
announces, and without the headers of TCP, IP and the link layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port

ROUND_TRIPS = 40
MESSAGES = 4
"""In a stream; so many that the first is under way while the next is made."""
SIPS = 16
"""In streams of several at once: the first of each is not counted, though others come meanwhile."""
_FIRST_BYTES = 32 * 1024
_LARGEST_BYTES = 32 << 20
_LATENCIES = 20
_MOST_TRIES = 8
_BETTER = 1.01
"""A stream is tried again until two in a row were not so many times as fast as the best: congestion control looks for the rate of a path
over seconds, and now and then lets it run dry to measure the latency (BBR, every ten seconds)."""
_TASTED, _DRUNK = "tasted", "drunk"
_QUIET_SECONDS, _QUIET = 0.5e-3, 0.1
"""A quarter of the round trips within so many seconds of the least, or this part of it, are a line without jitter: hosts pause too."""
_SHORTEST = 1e-6
"""Seconds; what arrives together has no rate."""


@dataclass(frozen=True, slots=True)
class LinkEstimate:
    """The connection from one actor to another: `latency` and `jitter` in seconds, one way, and `rate` in bytes per second."""

    latency: float
    rate: float
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class StreamMeasurement:
    """Messages sent without a pause: the `seconds` until the last had arrived everywhere, and how fast all but the first came.

    `nbytes` is the sum over the receivers, `span` the time from the first arrival of all to the last. In between the window is open and no
    latency counts, so that `rate` is what a long transfer reaches. Not the sum of each receiver's own rate: of streams that share a link
    one may end before the others, which then have the link to themselves.

    `before` has, for one receiver, how long before the last message each of the others came.
    """

    seconds: float
    nbytes: int
    span: float
    before: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """The rate of arrival in bytes per second."""
        return self.nbytes / max(self.span, _SHORTEST)

    @property
    def slowest(self) -> float:
        """Bytes per second of the slowest last part, which begins with any message but the last.

        Where several connections carry a message and one of them paused, it comes together with those behind it: counted from it, a stream
        would be faster than the link.
        """
        size = self.nbytes / len(self.before)
        return min(size * more / max(seconds, _SHORTEST) for more, seconds in enumerate(reversed(self.before), start=1))


async def ping(port: Port, peer: str) -> tuple[float, float]:
    """The latency in seconds, one way, and its jitter, from round trips of the smallest messages; `peer` runs `pong`.

    The latency is half the least round trip, unless most of them take clearly longer than that: then the network varies it.
    """
    halves = []
    for _ in range(ROUND_TRIPS):
        began = port.now()
        await port.send(peer, Message("ping"))
        await port.receive("pong", peer)
        halves.append((port.now() - began) / 2)
    return varying(halves)


def varying(halves: Sequence[float]) -> tuple[float, float]:
    """The latency and the jitter of which these are halves of round trips; a jitter of 0 where only few of them took longer.

    Where each way takes `latency` ± `jitter` uniformly, half of the sum is triangular: the median is the latency, and the least of n is
    above its lower end by sqrt(π / 2n) of the jitter in the mean.

    Examples:
        >>> varying([0.010, 0.0101, 0.0101, 0.0102, 0.030])
        (0.01, 0.0)
    """
    ordered = sorted(halves)
    least, quarter, middle = ordered[0], ordered[len(ordered) // 4], median(ordered)
    if quarter - least <= max(_QUIET_SECONDS, _QUIET * least):
        return least, 0.0
    return middle, min((middle - least) / (1 - math.sqrt(math.pi / (2 * len(ordered)))), middle)


async def pong(port: Port, peer: str) -> None:
    """Answer every message of `ping`."""
    for _ in range(ROUND_TRIPS):
        await port.receive("ping", peer)
        await port.send(peer, Message("pong"))


def long_enough(latency: float, seconds: float) -> float:
    """Seconds of a stream in which size dominates: `seconds` and many latencies."""
    return max(seconds, _LATENCIES * latency)


async def rate(port: Port, peer: str, latency: float, seconds: float) -> float:
    """The bytes per second of a stream that is long enough; `peer` runs `drink`.

    Streams grow until then, which opens windows and connections; the best of the last size counts.
    """
    size, least = _FIRST_BYTES, long_enough(latency, seconds)
    while True:
        stream = await pour(port, {peer: size})
        if stream.seconds >= least or size >= _LARGEST_BYTES:
            break
        size *= 2
    best, idle = stream.slowest, 0
    for _ in range(_MOST_TRIES):
        again = await pour(port, {peer: size})
        idle = 0 if again.slowest > best * _BETTER else idle + 1
        best = max(best, again.slowest)
        if idle == 2:
            break
    await port.send(peer, Message(_topic(port.name)))
    return best


async def pour(port: Port, sizes: Mapping[str, int], count: int = MESSAGES, away: Mapping[str, float] | None = None) -> StreamMeasurement:
    """Send `count` messages of so many bytes to each of the peers in `sizes` at once, right after one another; each peer runs `drink`.

    `away` is the round trip to each peer in seconds; it corrects the arrival times of several peers.
    """
    messages = {peer: Message(_topic(port.name), tensors=(torch.zeros(size, dtype=torch.uint8),)) for peer, size in sizes.items()}
    away = away or {}
    await port.flush()
    began = port.now()
    for _ in range(count):
        for peer, message in messages.items():
            await port.send(peer, message)
    firsts: list[float] = []
    lasts: list[float] = []
    longest = 0.0
    before: tuple[float, ...] = ()
    for topic, moments in ((_TASTED, firsts), (_DRUNK, lasts)):
        for _ in messages:
            delivery = await port.receive(topic)
            assert delivery is not None
            moments.append(port.now() - away.get(delivery.sender, 0.0))
            before = delivery.message.numbers
            longest = max(longest, *before, 0.0)
    nbytes = sum((count - 1) * wire_bytes(message) for message in messages.values())
    if len(messages) == 1:
        return StreamMeasurement(port.now() - began, nbytes, longest, before)
    return StreamMeasurement(port.now() - began, nbytes, max(longest, max(lasts) - min(firsts)))


async def drink(port: Port, peer: str) -> None:
    """Receive streams from `peer` until an empty message; report for each how long before the last the other messages came."""
    while await sip(port, peer, MESSAGES):
        pass


async def sip(port: Port, peer: str, count: int) -> tuple[float, ...]:
    """Receive one stream of `count` messages, and notify `peer`; returns when the first and the last came, nothing for an empty message."""
    moments: list[float] = []
    for _ in range(count):
        delivery = await port.receive(_topic(peer), peer)
        assert delivery is not None
        if not delivery.message.tensors:
            return ()
        moments.append(port.now())
        if len(moments) == 1:
            await port.send(peer, Message(_TASTED))
    first, *_, last = moments
    await port.send(peer, Message(_DRUNK, tuple(last - moment for moment in moments[:-1])))
    return first, last


def share(line: LinkEstimate, seconds: float) -> int:
    """The bytes of each message of a stream of `SIPS` that takes `seconds` on `line` without other traffic."""
    return min(max(int(line.rate * seconds / SIPS), 1), _LARGEST_BYTES)


def _topic(sender: str) -> str:
    return f"poured by {sender}"
