"""Joining from processes that somebody else started; here they are the workers of an outer run."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from ports import reserved_port
from toy import Toy, trained

from polyrhythm import systems
from polyrhythm.core.kernel.events import AnyEvent, Ended, Recorder, Started
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.rendezvous import negotiation
from polyrhythm.core.processes.rendezvous.join import Joining, enter
from polyrhythm.core.processes.rendezvous.negotiation import servers_of
from polyrhythm.core.processes.rendezvous.places import RankZero
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.stall_detection import Patience
from polyrhythm.core.processes.spawn.launch import Processes
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.core.shared_memory import MemoryGroup
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.core.training.work import make_job
from polyrhythm.errors import CompositionError, DeadlockError, RunError, WorkerFailed
from polyrhythm.topology import Ring

Inner = Callable[[RankEnvironment, int], Message | None]


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as found:
        yield found


async def no_service(port: Port, record: Recorder) -> None:
    return None


def everywhere(inner: Inner, workers: int, hosts: str = "") -> Ending:
    """Run `inner` in `workers` processes, which count as being on the hosts that the letters of `hosts` name."""
    with reserved_port() as port:

        def program(context: WorkerContext) -> Message | None:
            rank = rank_of(context.port.name)
            if hosts:
                os.environ["POLYRHYTHM_HOST_ID"] = hosts[rank]
            return inner(RankEnvironment(rank, workers, RankZero(port=port)), rank)

        return Processes().execute(Job(workers, 0, program, no_service, lambda name: True), lambda event: None)


def job(workers: int, servers: int = 0, essential: Callable[[str], bool] = lambda name: True) -> Job:
    async def service(port: Port, record: Recorder) -> None:
        total = torch.zeros(30_000)
        for _ in range(workers):
            delivery = await port.receive("push")
            assert delivery is not None
            total += delivery.message.tensors[0]
        for rank in range(workers):
            await port.send(f"worker/{rank}", Message("sum", tensors=(total,)))

    return Job(workers, servers, lambda context: None, service, essential)


async def exchange(port: Port, workers: int, size: int) -> float:
    """Everyone sends to everyone; the sum of what came."""
    for rank in range(workers):
        await port.send(f"worker/{rank}", Message("x", tensors=(torch.ones(size),)))
    total = 0.0
    for _ in range(workers):
        delivery = await port.receive("x")
        assert delivery is not None
        total += float(delivery.message.tensors[0].sum())
    return total


async def receive(port: Port, topic: str, sender: str = "") -> str:
    delivery = await port.receive(topic, sender)
    assert delivery is not None
    return delivery.message.text


@pytest.mark.parametrize("hosts", ["aaa", "abc", "aab"], ids=["one host", "three hosts", "two hosts"])
def test_joined_processes_exchange_messages_and_leave_well(hosts: str) -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        joined = enter(job(3), lambda event: None, place)
        total = joined.context.perform(exchange(joined.context.port, 3, 50_000))
        ending = joined.leave()
        return Message("end", (total, ending.bytes_sent, ending.messages_sent))

    each = wire_bytes(Message("x", tensors=(torch.zeros(50_000),)))
    for message in everywhere(inner, 3, hosts).results.values():
        assert message is not None
        assert message.numbers == (150_000.0, 9 * each, 9)


async def add(port: Port, workers: int) -> torch.Tensor | None:
    return await port.reduce(torch.ones(3), "sum", Group.of_workers(workers, rank_of(port.name)), Ring())


def test_where_one_rank_has_no_device_no_worker_uses_one() -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        negotiation.devices = lambda: "" if rank else "GPU-0"
        with enter(job(2), lambda event: None, place, Joining(startup=20.0)) as joined:
            total = joined.context.perform(add(joined.context.port, 2))
            assert total is not None
            return Message("end", text=joined.context.device, tensors=(total,))

    for message in everywhere(inner, 2).results.values():
        assert message is not None
        assert message.text == "cpu"
        assert message.tensors[0].tolist() == [2, 2, 2]


def test_who_leaves_before_another_can_add_up_is_not_waited_for() -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        if rank == 0:
            parted, part, group = threading.Event(), Node.peer_ended, negotiation.MemoryGroup

            def note(self: Node, name: str) -> None:
                part(self, name)
                parted.set()

            def late(*given: Any) -> MemoryGroup:
                assert parted.wait(60)
                return group(*given)

            Node.peer_ended, negotiation.MemoryGroup = note, late  # type: ignore[method-assign,assignment,misc]
        with enter(job(2), lambda event: None, place) as joined:
            if rank == 0:
                with pytest.raises(DeadlockError, match=r"worker/0 waits for the others in the sum 'sum': worker/1 has ended"):
                    joined.context.perform(add(joined.context.port, 2))
        return Message("end")

    assert list(everywhere(inner, 2).results.values()) == [Message("end")] * 2


@pytest.mark.long
def test_servers_run_colocated_with_the_workers_on_several_hosts() -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        events: list[AnyEvent] = []
        with enter(job(2, servers=3), events.append, place) as joined:

            async def body(port: Port) -> float:
                for shard in range(3):
                    await port.send(f"server/{shard}", Message("push", tensors=(torch.full((30_000,), rank + 1.0),)))
                total = 0.0
                for _ in range(3):
                    delivery = await port.receive("sum")
                    assert delivery is not None
                    total += float(delivery.message.tensors[0][0])
                return total

            total = joined.context.perform(body(joined.context.port))
        actors = {kind: sorted(event.actor for event in events if isinstance(event, kind)) for kind in (Started, Ended)}
        assert actors[Started] == actors[Ended]
        return Message("end", (total,), " ".join(actors[Ended]))

    results = everywhere(inner, 2, "ab").results
    assert {name: message and (message.numbers, message.text) for name, message in results.items()} == {
        "worker/0": ((9.0,), "server/0 server/2 worker/0"),
        "worker/1": ((9.0,), "server/1 worker/1"),
    }


def test_servers_run_colocated_with_the_workers_that_the_job_names() -> None:
    def placed(*colocated: int | None) -> list[list[str]]:
        three = Job(2, 3, lambda context: None, no_service, lambda name: True, colocated=colocated)
        return [servers_of(three, rank) for rank in range(2)]

    assert placed() == [["server/0", "server/2"], ["server/1"]]
    assert placed(1, 1, None) == [["server/2"], ["server/0", "server/1"]]


@pytest.mark.parametrize("hosts", ["aa", "ab"], ids=["one host", "TCP"])
@pytest.mark.parametrize("computing", [False, True], ids=["who waits", "who computes"])
def test_the_loss_of_a_peer_reaches_the_others(hosts: str, computing: bool) -> None:
    def inner(place: RankEnvironment, rank: int) -> Message | None:
        joined = enter(job(2), lambda event: None, place)
        joined.context.perform(exchange(joined.context.port, 2, 10))
        if rank == 1:
            joined.abandon()
            return None
        deadline = time.monotonic() + 60
        if computing:
            while joined.failure is None:
                assert time.monotonic() < deadline
        try:
            joined.context.perform(receive(joined.context.port, "never"))
        except WorkerFailed as problem:
            return Message("failed", text=problem.actor)
        finally:
            joined.abandon()
        return None

    result = everywhere(inner, 2, hosts).results["worker/0"]
    assert result is not None
    assert result.text == "worker/1"


@pytest.mark.long
def test_who_loses_the_parent_of_its_servers_gets_an_error_and_can_leave() -> None:
    async def service(port: Port, record: Recorder) -> None:
        await port.send("worker/0", Message("parent", (os.getppid(),)))
        await port.receive("never")

    async def parent(port: Port) -> int:
        delivery = await port.receive("parent", "server/0")
        assert delivery is not None
        return int(delivery.message.numbers[0])

    def inner(place: RankEnvironment, rank: int) -> Message:
        joined = enter(Job(1, 1, lambda context: None, service, lambda name: True), lambda event: None, place)
        os.kill(joined.context.perform(parent(joined.context.port)), signal.SIGKILL)
        with pytest.raises(RunError, match=r"The fork server, which starts the workers, was killed by signal 9 \(SIGKILL\)|server/0"):
            joined.leave()
        with pytest.raises(RunError):
            joined.context.perform(receive(joined.context.port, "never"))
        joined.abandon()
        return Message("end")

    assert everywhere(inner, 1).results["worker/0"] == Message("end")


def test_a_worker_that_is_killed_is_named_by_the_others(port: int) -> None:
    def program(context: WorkerContext) -> None:
        rank = int(context.port.name.partition("/")[2])
        with enter(job(3), lambda event: None, RankEnvironment(rank, 3, RankZero(port=port))) as joined:
            joined.context.perform(exchange(joined.context.port, 3, 10))
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            joined.context.perform(receive(joined.context.port, "never"))

    # of no actor does the outer run depend, so that what ends it is what the inner one raised
    with pytest.raises(WorkerFailed, match="worker/1 failed: its connections were lost before it had finished"):
        Processes().execute(Job(3, 0, program, no_service, lambda name: False), lambda event: None)


def test_a_worker_that_is_killed_is_named_by_those_who_have_started_a_sum_with_it(port: int) -> None:
    async def add(inner: Port) -> None:
        await inner.reduce(torch.ones(3), "sum", Group.of_workers(3, rank_of(inner.name)), Ring())

    def program(context: WorkerContext) -> None:
        rank = int(context.port.name.partition("/")[2])
        with enter(job(3), lambda event: None, RankEnvironment(rank, 3, RankZero(port=port))) as joined:
            joined.context.perform(exchange(joined.context.port, 3, 10))
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            joined.context.begin(add(joined.context.port), 1.0)
            joined.context.perform(receive(joined.context.port, "never"))

    with pytest.raises(WorkerFailed, match="worker/1 failed: its connections were lost before it had finished"):
        Processes().execute(Job(3, 0, program, no_service, lambda name: False), lambda event: None)


IMPATIENT = Joining(patience=Patience(uneven=0.1, notice=0.2, timeout=0.3))


def test_who_leaves_bears_with_another_that_is_still_busy() -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        with enter(job(2), lambda event: None, place, IMPATIENT):
            time.sleep(0.0 if rank else 1.5)
        return Message("end")

    assert list(everywhere(inner, 2).results.values()) == [Message("end")] * 2


def test_a_failure_after_an_announced_end_is_everybodys() -> None:
    """Worker 1 has parted from worker 0, which computes, and then fails for a reason of its own."""

    def inner(place: RankEnvironment, rank: int) -> Message:
        joined = enter(job(2), lambda event: None, place)
        if rank == 1:
            node, finish = joined._node, joined._node.finish

            def fail() -> None:
                node.fail(RunError("The last word was none."))

            node.finish = lambda done: finish(lambda: (done(), node.loop.after(0.2, fail)))  # type: ignore[method-assign]
        else:
            time.sleep(1.0)
        with pytest.raises(RunError, match=r"The last word was none\."):
            joined.leave()
        return Message("end")

    assert list(everywhere(inner, 2).results.values()) == [Message("end")] * 2


def test_who_dies_between_its_announced_and_its_real_end_has_failed(port: int) -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        joined = enter(job(3), lambda event: None, place)
        if rank == 1:
            joined._monitor.send_final = lambda totals: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        with pytest.raises(WorkerFailed, match="worker/1 failed: its connections were lost before it had finished"):
            joined.leave()
        return Message("end")

    ending = Processes().execute(
        Job(
            3,
            0,
            lambda context: inner(RankEnvironment(rank := int(context.port.name[-1]), 3, RankZero(port=port)), rank),
            no_service,
            lambda name: False,
        ),
        lambda event: None,
    )
    assert (ending.lost, list(ending.results.values())) == (["worker/1"], [Message("end")] * 2)


@pytest.mark.parametrize("servers", [0, pytest.param(3, marks=pytest.mark.long)])
def test_every_worker_learns_the_totals_of_the_whole_run(servers: int) -> None:
    async def push(port: Port, rank: int) -> None:
        for shard in range(servers):
            await port.send(f"server/{shard}", Message("push", tensors=(torch.full((30_000,), rank + 1.0),)))
        for _ in range(servers):
            await port.receive("sum")
        await port.send(f"worker/{1 - rank}", Message("hello", text="!" * rank))

    def inner(place: RankEnvironment, rank: int) -> Message:
        joined = enter(job(2, servers), lambda event: None, place)
        joined.context.perform(push(joined.context.port, rank))
        ending = joined.leave(Message("result", (10.0 + rank, 100.0 * rank, 0.0), "mine"))
        results = {name: result and (result.numbers, result.text) for name, result in ending.results.items()}
        assert results == {f"worker/{each}": ((10.0 + each, 100.0 * each, 0.0), "mine" if each == rank else "") for each in range(2)}
        return Message("end", (ending.bytes_sent, ending.messages_sent))

    pushed = wire_bytes(Message("push", tensors=(torch.zeros(30_000),))) + wire_bytes(Message("sum", tensors=(torch.zeros(30_000),)))
    hellos = wire_bytes(Message("hello")) + wire_bytes(Message("hello", text="!"))
    for message in everywhere(inner, 2, "ab").results.values():
        assert message is not None
        assert message.numbers == (2 * servers * pushed + hellos, 4 * servers + 2)


def test_the_run_goes_on_without_a_worker_that_is_not_essential() -> None:
    def inner(place: RankEnvironment, rank: int) -> Message | None:
        joined = enter(job(3, essential=lambda name: name != "worker/1"), lambda event: None, place)
        joined.context.perform(exchange(joined.context.port, 3, 10))
        if rank == 1:
            joined.abandon()
            return None
        lost = joined.context.perform(receive(joined.context.port, "lost"))
        return Message("lost", text=f"{lost} {joined.leave().lost}")

    results = everywhere(inner, 3).results
    assert [message and message.text for message in results.values()] == ["worker/1 ['worker/1']", None, "worker/1 ['worker/1']"]


def test_a_process_may_join_again_after_it_has_left() -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        totals = []
        for size in (1, 2):
            with enter(job(2), lambda event: None, place) as joined:
                totals.append(joined.context.perform(exchange(joined.context.port, 2, size)))
        with pytest.raises(RunError, match="has left this run already"):
            joined.leave()
        return Message("end", tuple(totals))

    assert [message and message.numbers for message in everywhere(inner, 2).results.values()] == [(2.0, 4.0)] * 2


def test_an_attempt_to_which_no_worker_came_does_not_count(port: int) -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        if rank == 1:
            with pytest.raises(RunError, match=r"could not be reached within .* seconds: nobody listens there"):
                enter(job(2), lambda event: None, RankEnvironment(1, 2, RankZero(port=port)), Joining(startup=0.2))
        with enter(job(2), lambda event: None, place, Joining(startup=20.0)) as joined:
            return Message("end", (joined.context.perform(exchange(joined.context.port, 2, 1)),))

    assert [message and message.numbers for message in everywhere(inner, 2).results.values()] == [(2.0,)] * 2


def test_another_secret_is_not_let_in() -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        os.environ["POLYRHYTHM_SECRET"] = f"the secret of rank {rank}"
        try:
            enter(job(2), lambda event: None, place, Joining(startup=6.0 - 3.0 * rank))
        except RunError as problem:
            return Message("refused", text=str(problem))
        return Message("let in")

    results = everywhere(inner, 2).results
    assert all(message and message.topic == "refused" for message in results.values())
    keeper, other = (message.text for message in results.values() if message)
    assert re.search(r"worker/1 has not joined at .*, and [0-9]+ callers did not have the secret: .* POLYRHYTHM_SECRET", keeper)
    assert re.search("could not be reached within [0-9]+ seconds: .*: start all processes with the same POLYRHYTHM_SECRET", other)


def test_who_waits_for_a_rank_that_never_comes_gets_an_error(port: int) -> None:
    with pytest.raises(RunError, match=r"worker/1 has not joined at 127\.0\.0\.1:[0-9]+ within 0.2 seconds"):
        enter(job(2), lambda event: None, RankEnvironment(0, 2, RankZero(port=port)), Joining(startup=0.2, wiring=Wiring()))


def test_a_job_of_another_size_is_refused() -> None:
    with pytest.raises(CompositionError, match="has 3 workers, but 2 processes"):
        enter(job(3), lambda event: None, RankEnvironment(0, 2))


@pytest.mark.parametrize("hosts", ["aa", "ab"], ids=["one host", "two hosts"])
def test_gradients_are_merged_where_they_lie_or_by_messages_with_the_same_bits(hosts: str) -> None:
    def inner(place: RankEnvironment, rank: int) -> Message:
        training = make_job(Toy(), StrategyPlan.of(systems.find("allreduce"), Processes().locations(2), 5))
        with enter(training, lambda event: None, place) as joined:
            result = training.program(joined.context)
            ending = joined.leave(result)
        return Message("end", (ending.bytes_sent, ending.messages_sent), tensors=result.tensors if result is not None else ())

    virtual = trained(Toy(), 2, "allreduce")
    ends = [end for end in everywhere(inner, 2, hosts).results.values() if end is not None]
    weights = next(end.tensors for end in ends if end.tensors)
    assert all(torch.equal(mine, other) for mine, other in zip(weights, virtual.outcome.weights.values(), strict=True))
    assert [end.numbers for end in ends] == [(virtual.summary.bytes_sent, virtual.summary.messages_sent)] * 2
