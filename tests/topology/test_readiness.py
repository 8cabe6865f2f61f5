"""Workers agree on what is ready everywhere, whatever the order in which each computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from collectives import LATENCY, NETWORK, run_collective

from polyrhythm.core.kernel.events import AnyEvent, Sent, Stalled
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import CompositionError, DeadlockError
from polyrhythm.topology.collective.readiness.cached import BitVector, ResponseCache
from polyrhythm.topology.collective.readiness.coordinator import RootCoordinator
from polyrhythm.topology.collective.readiness.grouping import ByPattern, Neighbours, Separately
from polyrhythm.topology.collective.readiness.protocol import Readiness, ReadyTensor

WAYS = (RootCoordinator(), ResponseCache(), ResponseCache(capacity=3), BitVector(), BitVector(capacity=3))
each_way = pytest.mark.parametrize("way", WAYS, ids=repr)
NAMES = [f"layers.{k}.weight" for k in range(5)]


def tensors(names: list[str], signature: str = "float32 (2,)") -> list[ReadyTensor]:
    return [ReadyTensor(name, signature) for name in names]


async def step(negotiator: Any, order: list[str], draw: np.random.Generator) -> list[str]:
    """One step of a worker whose tensors become ready in `order`, some in each cycle: what was released, in order."""
    ready: list[str] = []
    coming, released = list(order), list[str]()
    while len(released) < len(order):
        count = int(draw.integers(0, 4)) if coming else 0
        ready += coming[:count]
        del coming[:count]
        done = await negotiator.negotiate(tensors(ready))
        assert set(done) <= set(ready), "only what is ready here too"
        ready = [name for name in ready if name not in done]
        released += done
    return released


def shuffled(way: Readiness, workers: int, steps: int) -> list[list[str]]:
    """What each worker has released in `steps` steps, with an order of its own in each."""

    async def live(context: WorkerContext, group: Group) -> list[torch.Tensor]:
        negotiator, draw = way.negotiator(context.port, group), np.random.default_rng(group.rank)
        found = []
        for _ in range(steps):
            found += await step(negotiator, [NAMES[k] for k in draw.permutation(len(NAMES))], draw)
        return [torch.tensor([NAMES.index(name) for name in found])]

    return [[NAMES[k] for k in response[0]] for response in run_collective(workers, live)[0]]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@each_way
def test_all_release_the_same_in_the_same_order(way: Readiness, workers: int) -> None:
    found = shuffled(way, workers, 20)
    assert all(mine == found[0] for mine in found)
    for start in range(0, len(found[0]), len(NAMES)):
        assert sorted(found[0][start : start + len(NAMES)]) == NAMES


@pytest.mark.parametrize("way", [ResponseCache(), BitVector()], ids=repr)
def test_a_thousand_shuffles_have_one_order(way: Readiness) -> None:
    found = shuffled(way, 2, 1000)
    assert found[0] == found[1]
    assert len(found[0]) == 1000 * len(NAMES)


def sent_by_root(way: Readiness, names: list[str], steps: int, workers: int = 8) -> int:
    """The bytes that worker 0 sends and is sent in `steps` steps, in each of which all becomes ready in four cycles."""
    found: list[AnyEvent] = []

    async def live(context: WorkerContext, group: Group) -> None:
        negotiator = way.negotiator(context.port, group)
        for _ in range(steps):
            for part in np.array_split(names, 4):
                assert len(await negotiator.negotiate(tensors([str(name) for name in part]))) == len(part)

    def program(context: WorkerContext) -> Message:
        context.perform(live(context, Group.of_workers(workers, rank_of(context.port.name), 0)))
        return Message("response")

    job = Job(workers, 0, program, None, lambda _: True)  # type: ignore[arg-type]
    Simulator(network=NETWORK, record_sends=True).execute(job, found.append)
    return sum(event.nbytes for event in found if isinstance(event, Sent) and worker(0) in (event.actor, event.to))


def test_a_bit_vector_spares_the_root_nine_tenths_of_what_names_take() -> None:
    names = [f"encoder.layers.{k}.attention.weight" for k in range(160)]
    first = [sent_by_root(way, names, 1) for way in (RootCoordinator(), ResponseCache(), BitVector())]
    by_name, by_cache, by_bit = (sent_by_root(way, names, 6) for way in (RootCoordinator(), ResponseCache(), BitVector()))
    assert first[2] < 1.1 * first[0], "in the first step all go by name"
    assert by_name - first[0] >= 10 * (by_bit - first[2])
    assert by_name - first[0] > 4 * (by_cache - first[1]) > 4 * (by_bit - first[2])


@pytest.mark.parametrize("way", [ResponseCache(), BitVector()], ids=repr)
def test_a_tensor_that_has_changed_is_forgotten_and_found_by_its_name_again(way: Readiness) -> None:
    """It changes at all workers in the same step, but one is later than the others."""

    async def live(context: WorkerContext, group: Group) -> list[torch.Tensor]:
        negotiator, released = way.negotiator(context.port, group), []
        for shape in ("(2,)", "(2,)", "(3,)", "(3,)"):
            for late in range(2):
                ready = tensors(["a"], f"float32 {shape}") if late or group.rank else []
                released.append(len(await negotiator.negotiate(ready)))
        return [torch.tensor(released)]

    for response in run_collective(3, live)[0]:
        assert response[0].tolist() == [0, 1] * 4


@each_way
def test_tensors_that_differ_are_refused_with_both(way: Readiness) -> None:
    async def live(context: WorkerContext, group: Group) -> list[torch.Tensor]:
        await way.negotiator(context.port, group).negotiate(tensors(["a"], f"float32 ({2 + group.rank},)"))
        return []

    with pytest.raises(CompositionError, match=r"a is float32 \(3,\) at worker/1, and float32 \(2,\) at worker/0"):
        run_collective(2, live)


@pytest.mark.parametrize(
    "way",
    [RootCoordinator(2.0, 5.0), ResponseCache(RootCoordinator(1.0, 4.0), notice=1.0), BitVector(RootCoordinator(1.0, 4.0), notice=1.0)],
    ids=repr,
)
def test_who_does_not_have_a_tensor_is_named_and_later_the_run_ends(way: Readiness) -> None:
    """Also where it was cached long ago."""
    found: list[AnyEvent] = []

    async def live(context: WorkerContext, group: Group) -> None:
        negotiator = way.negotiator(context.port, group)
        for _ in range(2):
            await negotiator.negotiate(tensors(["a", "b"]))
        while True:
            await negotiator.negotiate(tensors(["a"] if group.rank != 1 else []))
            await context.port.sleep(0.1)

    def program(context: WorkerContext) -> Message:
        context.perform(live(context, Group.of_workers(3, rank_of(context.port.name), 0)))
        return Message("response")

    with pytest.raises(DeadlockError, match=r"a has been ready for \d s at some workers and is not at worker/1"):
        Simulator(network=NETWORK).execute(Job(3, 0, program, None, lambda _: True), found.append)  # type: ignore[arg-type]
    [stall] = [event for event in found if isinstance(event, Stalled)]
    assert (stall.actor, stall.tensor, stall.missing) == ("worker/0", "a", ["worker/1"])
    assert stall.seconds == pytest.approx(2.1, abs=1.1)


def test_a_worker_that_is_slower_is_named_and_the_run_goes_on() -> None:
    found: list[AnyEvent] = []

    async def live(context: WorkerContext, group: Group) -> list[str]:
        negotiator, released = RootCoordinator().negotiator(context.port, group), []
        while not released:
            released = await negotiator.negotiate(tensors(["a"] if group.rank == 0 or context.port.now() > 900 else []))
            await context.port.sleep(10.0)
        return released

    def program(context: WorkerContext) -> Message:
        assert context.perform(live(context, Group.of_workers(2, rank_of(context.port.name), 0))) == ["a"]
        return Message("response")

    Simulator(network=NETWORK).execute(Job(2, 0, program, None, lambda _: True), found.append)  # type: ignore[arg-type]
    [stall] = [event for event in found if isinstance(event, Stalled)]
    assert stall.missing == ["worker/1"]
    assert 60 <= stall.seconds < 80


def test_bits_take_a_logarithm_of_latencies_and_no_root() -> None:
    async def live(context: WorkerContext, group: Group) -> list[torch.Tensor]:
        negotiator = BitVector().negotiator(context.port, group)
        await negotiator.negotiate(tensors(NAMES))
        since = context.port.now()
        for _ in range(20):
            await negotiator.negotiate(tensors(NAMES))
        return [torch.tensor((context.port.now() - since) / 20)]

    for response in run_collective(8, live)[0]:
        assert response[0].item() == pytest.approx(3 * LATENCY, rel=0.1)


def test_names_are_grouped() -> None:
    assert Separately().cut(NAMES[:2]) == [[NAMES[0]], [NAMES[1]]]
    assert [len(group) for group in Neighbours(3).cut(NAMES)] == [3, 2]
    assert ByPattern(("layers.[01].*", "*")).cut(NAMES) == [NAMES[:2], NAMES[2:]]
    assert ByPattern(("layers.0.*",)).cut(NAMES[:3]) == [[NAMES[0]], [NAMES[1]], [NAMES[2]]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RootCoordinator(0),
        lambda: RootCoordinator(5, 4),
        lambda: RootCoordinator(float("nan")),
        lambda: BitVector(capacity=0),
        lambda: Neighbours(0),
    ],
)
def test_settings_without_meaning_are_refused(make: Any) -> None:
    with pytest.raises(CompositionError, match="give"):
        make()
