"""A rank's run, in a process of its own: what it would ask of the scheduler, it asks of the scheduler's process."""

from __future__ import annotations

import atexit
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from torch.distributed import Store  # type: ignore[attr-defined]

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.crew_side import CrewSide, FixedCrew
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.simulator.counts import Count
from polyrhythm.process_group.messages.calls import IssuedCall
from polyrhythm.process_group.messages.desk import Standing
from polyrhythm.torch_programs.memory import Memory
from polyrhythm.torch_programs.processes.kernel import Kernel
from polyrhythm.torch_programs.rank_settings import RankSettings

T = TypeVar("T")
_DEFAULT = timedelta(seconds=300)


class RemoteContext:
    """The context of the rank of this process. What it computes is counted by `count`."""

    device = "cpu"

    def __init__(self, kernel: Kernel, count: Count, seed: int, details: bool) -> None:
        self._kernel = kernel
        self._count = count
        self.port: Port = Port(kernel.name, seed, lambda: kernel.now, self.record, details)
        self.crew: CrewSide = FixedCrew()

    @property
    def bytes_sent(self) -> int:
        return self._kernel.bytes_sent

    def record(self, event: AnyEvent) -> None:
        """Record an event."""
        self._kernel.say("told", "event", event)

    def time(self) -> float:
        return float(self._kernel.ask("time"))

    def charge(self, samples: int) -> None:
        self._kernel.ask("charge", samples)

    def discard(self) -> None:
        self._kernel.ask("discard")

    def reach(self, done: float) -> None:
        self._kernel.ask("reach", done)

    def charge_merge(self, others: int) -> None:
        self._kernel.ask("charge_merge", others)

    def follow(self, model: Any, alone: str) -> None:
        """Each computes in a process of its own."""

    def free(self, compute: Callable[[], T]) -> T:
        return self._count.free(compute)

    def write(self, deed: Callable[[], T]) -> T:
        result = self.free(deed)
        self._kernel.ask("written")
        return result

    def uncounted(self, compute: Callable[[], T]) -> T:
        return self._count.uncounted(compute)

    def counted(self, compute: Callable[[], T]) -> T:
        return self._count.counted(compute)

    def perform(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        result: T = self._kernel.perform(coroutine)
        return result

    def perform_steps(self, coroutine: Coroutine[Effect[Any], Any, None]) -> None:
        self.perform(coroutine)

    def begin(self, coroutine: Coroutine[Effect[Any], Any, None], done: float) -> None:
        self._kernel.ask("begin", self._kernel.carry(coroutine), done)

    def native(self, group: Group) -> bool:
        """Always False: messages take the time that they would take."""
        return False

    def agree(self, facts: Facts, remedy: str) -> None:
        RemoteRounds(self._kernel, "").agree(self.port.name, facts, remedy)

    def align(self, alignment: Alignment) -> Message | None:
        return RemoteRounds(self._kernel, "").align(self.port.name, alignment)

    def compare(self, comparison: Comparison) -> None:
        RemoteRounds(self._kernel, "").compare(self.port.name, comparison)

    def stopped(self, steps: int) -> None:
        self._kernel.ask("stopped", steps)

    def last_step(self, clock: int) -> int | None:
        """None: the program ends as it wants to."""
        return None

    def stop(self, kept: bool) -> None:
        """Never called: no step is the last."""


async def _unshown() -> Message:
    raise AssertionError("states are compared where they are given")


class RemoteRounds:
    """What the workers of one run compare with each other."""

    def __init__(self, kernel: Kernel, scope: str) -> None:
        self._kernel = kernel
        self._scope = scope

    def agree(self, name: str, facts: Facts, remedy: str) -> None:
        self._kernel.ask("agree", self._scope, name, dict(facts), remedy)

    def align(self, name: str, alignment: Alignment) -> Message | None:
        """Nobody shows a state: the scheduler's process has all that are given."""
        found: Message | None = self._kernel.ask("align", self._scope, name, replace(alignment, show=_unshown))
        return found

    def compare(self, name: str, comparison: Comparison) -> None:
        self._kernel.ask("compare", self._scope, name, comparison)


class RemoteLedger:
    """Where it is compared what the ranks issue."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def compare(self, rank: int, call: IssuedCall) -> None:
        self._kernel.ask("issue", rank, call)


class RemoteMeeting:
    """What the rank of this process shares with others."""

    def __init__(self, kernel: Kernel, locations: Sequence[Location], memory: Callable[[], Memory | None], settings: RankSettings) -> None:
        self._kernel = kernel
        self.locations = locations
        self.memory = memory
        self.settings = settings
        self.asked = False
        self.ledger = RemoteLedger(kernel)
        self.standings: dict[int, Standing] = {}
        self._joins: Counter[tuple[int, tuple[int, ...]]] = Counter()

    def joins(self, rank: int, group: tuple[int, ...]) -> int:
        self._joins[rank, group] += 1
        return self._joins[rank, group] - 1

    def rounds(self, scope: str) -> RemoteRounds:
        return RemoteRounds(self._kernel, scope)

    def store(self, context: WorkerContext, address: tuple[object, ...]) -> Store:
        return RemoteStore(self._kernel, address)

    def leave(self) -> None:
        """Do what is registered for the end of the process, while there still is a run."""
        atexit._run_exitfuncs()


class RemoteStore(Store):
    """A store of torch.distributed in the process of the scheduler."""

    def __init__(self, kernel: Kernel, address: tuple[object, ...]) -> None:
        super().__init__()
        self._kernel = kernel
        self._address = address
        self._limit = _DEFAULT

    def set(self, key: str, value: Any) -> None:
        self._ask("set", key, value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return bytes(self._ask("get", key))

    def add(self, key: str, value: int) -> int:
        return int(self._ask("add", key, value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        return bytes(self._ask("compare_set", key, expected_value, desired_value))

    def check(self, keys: list[str]) -> bool:
        return bool(self._ask("check", list(keys)))

    def delete_key(self, key: str) -> bool:
        return bool(self._ask("delete_key", key))

    def num_keys(self) -> int:
        return int(self._ask("num_keys"))

    def list_keys(self) -> list[str]:
        return list(self._ask("list_keys"))

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: Sequence[Any]) -> None:
        self._ask("multi_set", list(keys), list(values))

    def append(self, key: str, value: Any) -> None:
        self._ask("append", key, value)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self._ask("wait", list(keys), timeout or self._limit)

    def queue_push(self, key: str, value: Any) -> None:
        self._ask("queue_push", key, value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return bytes(self._ask("queue_pop", key, block))

    def queue_len(self, key: str) -> int:
        return int(self._ask("queue_len", key))

    def set_timeout(self, timeout: timedelta) -> None:
        self._limit = timeout

    @property
    def timeout(self) -> timedelta:
        return self._limit

    def has_extended_api(self) -> bool:
        return True

    def _ask(self, deed: str, *of: Any) -> Any:
        return self._kernel.ask("store", self._address, deed, *of)
