"""A worker's requests on their way to the servers of a ring, and again to the next where one is lost."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from polyrhythm.core.kernel.effects import Effect, Receive, Send
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.protocols.losses import follow_losses
from polyrhythm.core.protocols.topology import WorkerEndpoint
from polyrhythm.topology.server_ring.chain import chains
from polyrhythm.topology.server_ring.key_cache import SentKeys, list_in
from polyrhythm.topology.server_ring.ring_records import INBOX, LIST, RingMessage, control_message, scope_of
from polyrhythm.topology.servers.server_records import REQUESTS, Push, Wanted, from_numbers
from polyrhythm.topology.servers.server_requests import SentPush, ServerRequests


class Logged(NamedTuple):
    """A request that may have to be sent again: its number, whether it has a response, and what is pushed by it, if anything is."""

    number: int
    asks: bool
    message: Message
    pushed: SentPush | None

    @property
    def clock(self) -> int:
        """The step of a push; 0 of another request."""
        return 0 if self.pushed is None else self.pushed.push.clock


class RingLink:
    """Stands between a client of servers and its port: the client sends to server k, the link to the present holder of part k.

    Requests are numbered. They are kept until a response shows that the server and its replicas have their results, and sent again,
    in order, when the server is lost; a server takes no push twice. At most one request to each server waits for its response.
    The last `lists` lists of keys are sent once to each server. Where the crew changes, servers have what was merged, and the pushes of
    `client` that were not are sent again.
    """

    def __init__(self, endpoint: WorkerEndpoint, client: ServerRequests, replicas: int, lists: int) -> None:
        self.port = endpoint.port
        self.client = client
        self.servers = endpoint.servers
        self.chains = chains(endpoint.servers, replicas)
        self.requests = endpoint.port.receive(REQUESTS).topic
        self.places = {name: k for k, name in enumerate(endpoint.servers)}
        self.answers = {self.port.receive(f"{kind}{k}").topic: k for k in range(len(self.servers)) for kind in "wd"}
        self.keys = SentKeys(lists) if lists else None
        self.count = 0
        self.asking = [0] * len(self.servers)
        self.logs: list[deque[Logged]] = [deque() for _ in self.servers]
        self.over = False

    @property
    def unmerged(self) -> list[list[SentPush]]:
        """The pushes that some servers may not have merged, by part."""
        return [[each.pushed for each in log if each.pushed is not None] for log in self.logs]

    async def begin(self) -> None:
        """Start to listen for losses, and for servers that have forgotten a list of keys."""
        await follow_losses(self.port, self._lose)
        for k in range(len(self.servers)):
            await self.port.spawn(f"keys {k}", self._remind(k))

    async def goodbye(self) -> None:
        """This worker has the final weights, and needs no server any more."""
        self.over = True
        for k, chain in enumerate(self.chains):
            for name in chain.living:
                await self.port.send(name, _to(k, control_message(RingMessage.GOODBYE)))

    async def handle(self, effect: Effect[Any]) -> Any:
        """Carry out an effect of the client."""
        match effect:
            case Send(to=to, message=message) if message.topic == self.requests and to in self.places:
                await self._request(self.places[to], message)
                return None
            case Receive(topic=topic) if topic in self.answers:
                return await self._response(self.answers[topic], effect)
        return await effect

    async def _request(self, shard: int, message: Message) -> None:
        request = from_numbers(message.numbers)
        self.count += 1
        pushed = next(filter(None, reversed(self.client.unanswered[shard])), None) if isinstance(request, Push) else None
        asks = not isinstance(request, Push) or request.wanted is not Wanted.NOTHING
        if asks:
            self.asking[shard] = self.count
        numbered = Message(INBOX, (float(RingMessage.REQUEST), float(self.count), *message.numbers), message.text, message.tensors)
        self.logs[shard].append(Logged(self.count, asks, numbered, pushed))
        await self._send(shard, numbered)

    async def _send(self, shard: int, message: Message) -> None:
        to = self.chains[shard].primary
        await self.port.send(to, _to(shard, message if self.keys is None else self.keys.without(f"{to} {shard}", message)))

    async def _response(self, shard: int, effect: Receive) -> Delivery | None:
        """The response to the request that waits for one; others come from a server that was lost, and are dropped."""
        while True:
            delivery = await Receive(effect.topic, "", effect.timeout)
            if delivery is None:
                return None
            number, applied, *numbers = delivery.message.numbers
            if number == self.asking[shard] != 0:
                self.asking[shard] = 0
                kept = (each for each in self.logs[shard] if each.clock > applied)
                self.logs[shard] = deque(kept)
                message = delivery.message
                return Delivery(self.servers[shard], Message(message.topic, tuple(numbers), message.text, message.tensors))

    async def _lose(self, name: str) -> None:
        for k, chain in enumerate(self.chains):
            again = not self.over and chain.primary == name
            if chain.lose(name) and again:
                for logged in list(self.logs[k]):
                    await self._send(k, logged.message)

    async def _remind(self, shard: int) -> None:
        """Send a list of keys again to a server that does not know its hash."""
        while True:
            delivery = await self.port.receive(f"k{shard}")
            assert delivery is not None
            found = [keys for each in self.logs[shard] if (keys := list_in(each.message, delivery.message.text)) is not None]
            await self.port.send(delivery.sender, _to(shard, Message(LIST, tensors=tuple(found[:1]))))


def _to(shard: int, message: Message) -> Message:
    return Message(scope_of(shard) + message.topic, message.numbers, message.text, message.tensors)
