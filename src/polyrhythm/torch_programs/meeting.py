"""The stores in which the ranks of a program find each other, and how one waits there for another."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import ASIDE, Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.rounds import Comparing, Rounds
from polyrhythm.process_group.messages.desk import Judge, Ledger, Standing
from polyrhythm.torch_programs.memory import Memory
from polyrhythm.torch_programs.rank_settings import PLAIN, RankSettings

_DEFAULT = timedelta(seconds=300)
_TOPIC = ASIDE + "store/"
"""Messages under it are not counted, and take no virtual time."""


class Shared(Protocol):
    """What a rank shares with the others of its run."""

    asked: bool
    """True if a rank has joined as a worker that names no strategy."""

    @property
    def locations(self) -> Sequence[Location]:
        """Those of the ranks."""

    @property
    def settings(self) -> RankSettings:
        """Those of all ranks."""

    @property
    def ledger(self) -> Judge:
        """Compares what they issue."""

    @property
    def standings(self) -> dict[int, Standing]:
        """What ranks wait for, of those that have begun."""

    @property
    def memory(self) -> Callable[[], Memory | None]:
        """Makes what counts the memory of a rank."""

    def joins(self, rank: int, group: tuple[int, ...]) -> int:
        """How often `rank` has joined a run of the ranks of `group` before."""

    def rounds(self, scope: str) -> Comparing:
        """What the workers of one such run compare with each other."""

    def store(self, context: WorkerContext, address: tuple[object, ...]) -> Store:
        """The store at `address`, for the rank of `context`; the first who asks makes it."""

    def leave(self) -> None:
        """A rank has ended: do what its process does then."""


class SharedByRanks:
    """What the ranks of this process share: the values of all stores of a run, by their address, such as ("tcp", "127.0.0.1", 29500)."""

    def __init__(
        self,
        locations: Sequence[Location],
        memory: Callable[[], Memory | None] = lambda: None,
        settings: RankSettings = PLAIN,
    ) -> None:
        self.locations = locations
        self.settings = settings
        self.asked = False
        """True if a rank has joined as a worker that names no strategy."""
        self.memory = memory
        """Makes what counts the memory of a rank."""
        self._stores: dict[tuple[object, ...], Values] = defaultdict(Values)
        self._rounds: dict[str, Rounds] = defaultdict(Rounds)
        self._joins: Counter[tuple[int, tuple[int, ...]]] = Counter()
        self.ledger = Ledger()
        self.standings: dict[int, Standing] = {}
        """Those of the ranks that have begun."""

    def joins(self, rank: int, group: tuple[int, ...]) -> int:
        """How often `rank` has joined a run of the ranks of `group` before."""
        self._joins[rank, group] += 1
        return self._joins[rank, group] - 1

    def leave(self) -> None:
        """The process goes on."""

    def rounds(self, scope: str) -> Rounds:
        """What the workers of one such run compare with each other."""
        return self._rounds[scope]

    def store(self, context: WorkerContext, address: tuple[object, ...]) -> MeetingStore:
        """The store at `address`, for the rank of `context`; the first who asks makes it."""
        return MeetingStore(context, self._stores[address])


class Values:
    """The values of one store, and who waits for a key."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.queues: dict[str, list[bytes]] = defaultdict(list)
        self._waiting: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._numbers = itertools.count()

    async def arrived(self, port: Port, key: str, seconds: float) -> bool:
        """Wait until somebody sets `key`: False if that takes longer."""
        topic = f"{_TOPIC}{next(self._numbers)}"
        self._waiting[key].append((port.name, topic))
        return await port.receive(topic, timeout=seconds) is not None

    async def announce(self, port: Port, key: str) -> None:
        """Wake those who wait for `key`."""
        for name, topic in self._waiting.pop(key, ()):
            await port.send(name, Message(topic))


class MeetingStore(Store):
    """A store of torch.distributed whose waits let the other ranks continue."""

    def __init__(self, context: WorkerContext, values: Values, timeout: timedelta = _DEFAULT) -> None:
        super().__init__()
        self._context = context
        self._values = values
        self._limit = timeout

    def set(self, key: str, value: Any) -> None:
        """Set `key`."""
        self._put(key, _bytes(value))

    def get(self, key: str) -> bytes:
        """The value of `key`, when somebody has set it. Raises DistStoreError after the timeout."""
        self.wait([key])
        return self._values.known[key]

    def add(self, key: str, value: int) -> int:
        """Add to a number, and return it."""
        total = int(self._values.known.get(key, b"0")) + value
        self._put(key, str(total).encode())
        return total

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Set `key` if its value is the expected one, or if it has none and nothing is expected; returns its value."""
        known, expected = self._values.known.get(key), _bytes(expected_value)
        if known == expected or (known is None and not expected):
            self._put(key, _bytes(desired_value))
        return self._values.known.get(key, expected)

    def check(self, keys: list[str]) -> bool:
        """True if all are set."""
        return all(key in self._values.known for key in keys)

    def delete_key(self, key: str) -> bool:
        """Remove `key`; True if it was there."""
        return self._values.known.pop(key, None) is not None

    def num_keys(self) -> int:
        """The number of keys."""
        return len(self._values.known)

    def list_keys(self) -> list[str]:
        """All keys."""
        return list(self._values.known)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """The values of several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: Sequence[Any]) -> None:
        """Set several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def append(self, key: str, value: Any) -> None:
        """Append to the value of `key`."""
        self._put(key, self._values.known.get(key, b"") + _bytes(value))

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Return when all are set. Raises DistStoreError after the timeout."""
        from torch.distributed import DistStoreError

        seconds = (timeout or self._limit).total_seconds()
        port = self._context.port
        for key in keys:
            while key not in self._values.known:
                if not self._context.perform(self._values.arrived(port, key, seconds)):
                    raise DistStoreError(f"wait timeout after {1000 * seconds:.0f}ms, keys: {key}")

    def queue_push(self, key: str, value: Any) -> None:
        """Append to the queue `key`."""
        self._values.queues[key].append(_bytes(value))
        self._context.perform(self._values.announce(self._context.port, f"queue {key}"))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the oldest of the queue `key`."""
        while block and not self._values.queues[key]:
            self._context.perform(self._values.arrived(self._context.port, f"queue {key}", self._limit.total_seconds()))
        return self._values.queues[key].pop(0)

    def queue_len(self, key: str) -> int:
        """The length of the queue `key`."""
        return len(self._values.queues[key])

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long waits last."""
        self._limit = timeout

    @property
    def timeout(self) -> timedelta:
        """How long waits last."""
        return self._limit

    def has_extended_api(self) -> bool:
        """True: it has `append` and the calls for several keys."""
        return True

    def _put(self, key: str, value: bytes) -> None:
        self._values.known[key] = value
        self._context.perform(self._values.announce(self._context.port, key))


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
