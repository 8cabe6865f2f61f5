"""Sums of several groups side by side: whom each is over, what it counts, and who is lost in which."""

import os
import signal
from collections.abc import Callable

import pytest
import torch
from ports import reserved_port
from torch import Tensor

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.group import Group, workers
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.rendezvous.join import enter
from polyrhythm.core.processes.rendezvous.places import RankZero
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.core.processes.runtime.sums import Sums
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.errors import CompositionError, DeadlockError
from polyrhythm.topology import Ring

WORKERS = 4
GROUPS = (("", workers(WORKERS)), ("even", ("worker/0", "worker/2")), ("odd", ("worker/3", "worker/1")), ("alone", ("worker/1",)))
SIZES = (3, 5_000, 100_001)


async def no_service(port: Port, record: Recorder) -> None:
    return None


def job(program: Callable[[WorkerContext], Message | None], essential: Callable[[str], bool] = lambda name: True) -> Job:
    return Job(WORKERS, 0, program, no_service, essential, groups=GROUPS[1:])


def run(program: Callable[[WorkerContext], Message | None], essential: Callable[[str], bool] = lambda name: True) -> Ending:
    return Processes(patience=4.0).execute(job(program, essential), lambda event: None)


def groups_of(name: str) -> list[Group]:
    return [Group(group, members, members.index(name)) for group, members in GROUPS if name in members]


def value_of(name: str, group: Group, size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(10 * rank_of(name) + len(group.name)))


async def by_messages(port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
    return await Ring().reduce(port, group, value, topic)


async def natively(port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
    """By messages only where the group has one member, or is on several hosts."""
    total = await port.reduce(value, topic, group, Ring())
    return await by_messages(port, group, value, topic) if total is None else total


Way = Callable[[Port, Group, Tensor, str], object]


async def all_at_once(port: Port, way: Way) -> list[Tensor]:
    """Every sum of every group under way at the same time, the groups in another order at each worker."""
    found: dict[str, list[Tensor]] = {}

    async def sums(group: Group) -> None:
        found[group.name] = [
            await way(port, group, value_of(port.name, group, size), f"{group.name}/{size}")  # type: ignore[misc]
            for size in SIZES
        ]
        await port.send(port.name, Message("done"))

    groups = groups_of(port.name)
    for group in groups if rank_of(port.name) % 2 else reversed(groups):
        await port.spawn(group.name, sums(group))
    for _ in groups:
        await port.receive("done")
    return [total for group in groups for total in found[group.name]]


def summing(way: Way) -> Callable[[WorkerContext], Message]:
    def program(context: WorkerContext) -> Message:
        return Message("sums", tensors=tuple(context.perform(all_at_once(context.port, way))))

    return program


def test_groups_sum_side_by_side_with_the_bits_and_the_bytes_of_messages() -> None:
    ours, theirs = run(summing(natively)), run(summing(by_messages))
    assert (ours.bytes_sent, ours.messages_sent) == (theirs.bytes_sent, theirs.messages_sent)
    for name, result in ours.results.items():
        other = theirs.results[name]
        assert result is not None
        assert other is not None
        assert len(result.tensors) == len(groups_of(name)) * len(SIZES)
        assert all(torch.equal(a, b) for a, b in zip(result.tensors, other.tensors, strict=True))


def native_groups(context: WorkerContext) -> str:
    async def request(port: Port, group: Group) -> bool:
        return await port.reduce(torch.ones(3), f"{group.name}/look", group, Ring()) is not None

    return " ".join(group.name or "all" for group in groups_of(context.port.name) if context.perform(request(context.port, group)))


def texts(ending: Ending) -> list[str]:
    return [result.text for result in ending.results.values() if result is not None]


def test_every_group_of_two_or_more_workers_has_a_way_of_its_own() -> None:
    assert texts(run(lambda context: Message("ways", text=native_groups(context)))) == ["all even", "all odd", "all even", "all odd"]


def test_a_group_that_the_job_does_not_name_goes_by_messages() -> None:
    async def pair(port: Port) -> bool:
        members = ("worker/0", "worker/1")
        group = Group("pair", members, members.index(port.name))
        return await port.reduce(torch.ones(3), "pair", group, Ring()) is None

    def program(context: WorkerContext) -> Message:
        return Message("left", (rank_of(context.port.name) > 1 or context.perform(pair(context.port)),))

    assert all(result is not None and result.numbers == (1.0,) for result in run(program).results.values())


@pytest.mark.parametrize(("hosts", "ways"), [("aaaa", "all even|all odd"), ("abab", "even|odd"), ("abaa", "even|")], ids=str)
def test_joined_workers_share_memory_in_each_group_that_is_on_one_host(hosts: str, ways: str) -> None:
    with reserved_port() as port:

        def program(context: WorkerContext) -> Message:
            rank = rank_of(context.port.name)
            os.environ["POLYRHYTHM_HOST_ID"] = hosts[rank]
            with enter(job(lambda _: None), lambda event: None, RankEnvironment(rank, WORKERS, RankZero(port=port))) as joined:
                joined.context.perform(all_at_once(joined.context.port, natively))
                return Message("ways", text=native_groups(joined.context))

        ending = Processes().execute(Job(WORKERS, 0, program, no_service, lambda name: True), lambda event: None)
    assert texts(ending) == ways.split("|") * 2


@pytest.mark.parametrize("started", [False, True], ids=["performed", "started"])
def test_who_is_lost_is_named_in_its_group_and_the_others_go_on(started: bool) -> None:
    def program(context: WorkerContext) -> Message | None:
        port, (_, group, *_) = context.port, groups_of(context.port.name)
        if port.name == "worker/3":
            os.kill(os.getpid(), signal.SIGKILL)

        async def add() -> None:
            await port.reduce(torch.ones(3), "sum", group, Ring())

        async def nothing() -> None:
            return None

        try:
            if started:
                context.begin(add(), 1.0)
                context.perform(nothing())
            else:
                context.perform(add())
        except DeadlockError as problem:
            return Message("failed", text=str(problem))
        return Message("added", text="added")

    found = run(program, essential=lambda name: name != "worker/3")
    waits = "worker/1 waits for the others in the sum 'sum' of the group 'odd': worker/3 was lost."
    assert (found.lost, texts(found)) == (["worker/3"], ["added", waits, "added"])


def test_groups_that_wait_for_each_other_in_different_orders_get_on() -> None:
    async def two(port: Port) -> float:
        groups = groups_of(port.name)[:2]
        total = 0.0

        async def add(group: Group) -> None:
            nonlocal total
            found = await port.reduce(torch.ones(3), f"{group.name}/sum", group, Ring())
            assert found is not None
            total += float(found[0])
            await port.send(port.name, Message("done"))

        for group in groups if port.name == "worker/0" else reversed(groups):
            await port.spawn("add", add(group))
        for _ in groups:
            await port.receive("done")
        return total

    ending = run(lambda context: Message("sum", (context.perform(two(context.port)),)))
    assert {result.numbers for result in ending.results.values() if result is not None} == {(6.0,)}


@pytest.mark.parametrize(
    "groups",
    [
        (("", ("worker/0",)),),
        (("a", ("worker/0",)), ("a", ("worker/1",))),
        (("a", ("worker/2",)),),
        (("a", ("worker/0", "worker/0")),),
        (("a", ()),),
    ],
    ids=["nameless", "named twice", "strangers", "members twice", "nobody"],
)
def test_groups_that_cannot_be_distinguished_or_filled_are_refused(groups: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    with pytest.raises(CompositionError, match=r"group|Group"):
        Job(2, 0, lambda context: None, no_service, lambda name: True, groups=groups)


class FakeReducer:
    def __init__(self) -> None:
        self.parted: list[str] = []
        self.given_up = False
        self.moved = 1

    def reduce(self, effect: object) -> None:
        return None

    def reduce_in_place(self, effect: object) -> None:
        return None

    def peer_gone(self, name: str, how: str) -> None:
        self.parted.append(f"{name} {how}")

    def give_up(self) -> None:
        self.given_up = True


def test_losses_reach_the_reducers_of_all_groups_also_if_they_came_first() -> None:
    sums, ways = Sums("worker/0", lambda: RuntimeError("failed before")), {"": FakeReducer(), "even": FakeReducer()}
    sums.peer_gone("worker/1", "was lost")
    sums.reducers = ways
    sums.peer_gone("worker/2", "has ended")
    assert [way.parted for way in ways.values()] == [["worker/1 was lost", "worker/2 has ended"]] * 2
    assert all(way.given_up for way in ways.values())
    assert sums.moved == 2
