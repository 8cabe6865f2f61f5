"""Laws of random schedules of faults, and of shrinking those that fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.core.kernel.events import AnyEvent, Stepped
from polyrhythm.core.kernel.job import Ending, Job, WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.errors import PolyrhythmError
from polyrhythm.hardware.faults import (
    Crash,
    Disconnect,
    Drop,
    Exit,
    Fault,
    HoldGIL,
    Join,
    KillWhileWriting,
    Leave,
    Segfault,
    SlowDisk,
    Stall,
)
from polyrhythm.hardware.faults.fault import begins

from .schedules import Schedule, random_schedule, refute, shrink

ACTORS = [worker(rank) for rank in range(4)]
EVERY: list[Any] = [Crash, Disconnect, Drop, Exit, HoldGIL, Join, KillWhileWriting, Leave, Segfault, SlowDisk, Stall]
HERE: list[Any] = [Crash, Disconnect, Drop, Exit, HoldGIL, Segfault, Stall]
"""Those that a run with a fixed number of workers and without checkpoints can have."""
STEPS = 8


def drawn(seed: int, kinds: Sequence[Any] = HERE) -> Schedule:
    return random_schedule(seed, ACTORS, 4.0, kinds, STEPS)


def passes_on(context: WorkerContext) -> None:
    """Sends a note to the next worker at each step, and takes what has come."""
    port = context.port

    async def exchange(clock: int) -> None:
        await port.send(worker((rank_of(port.name) + 1) % len(ACTORS)), Message("x", (clock,)))
        await port.sleep(0.5)
        await port.receive_all("x")

    for clock in range(1, STEPS + 1):
        context.perform(exchange(clock))
        context.record(Stepped(port.now(), port.name, clock, clock, 0))


async def no_service(*_: object) -> None: ...


def play(schedule: Schedule, seed: int = 0) -> tuple[Ending | None, bytes]:
    """The ending of the run, None for one that fails, and its record."""
    events: list[AnyEvent] = []
    ending: Ending | None = None
    try:
        runtime = Simulator(network="lan", faults=schedule, seed=seed, record_sends=True)
        ending = runtime.execute(Job(len(ACTORS), 0, passes_on, no_service, lambda name: False), events.append)
    except PolyrhythmError as problem:
        return None, str(problem).encode() + msgspec.json.encode(events)
    return ending, msgspec.json.encode(events)


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_gives_one_schedule_with_moments_in_its_range(seed: int) -> None:
    schedule = drawn(seed, EVERY)
    assert schedule == drawn(seed, EVERY) != drawn(seed + 1, EVERY)
    assert 1 <= len(schedule) <= 8
    assert all((at := begins(fault)) is None or 0 <= at <= 4.0 for fault in schedule)
    assert all(getattr(fault, "step", None) in (None, *range(1, STEPS + 1)) for fault in schedule)


def test_all_kinds_and_all_actors_come() -> None:
    found = [fault for seed in range(100) for fault in drawn(seed, EVERY)]
    assert {type(fault) for fault in found} == set(EVERY)
    assert {fault.actor for fault in found if isinstance(fault, Crash)} == set(ACTORS)


@pytest.mark.parametrize("seed", range(6))
def test_a_seed_replays_to_the_byte(seed: int) -> None:
    assert play(drawn(seed), seed)[1] == play(drawn(seed), seed)[1]
    assert any(play(drawn(other), other)[1] != play(drawn(seed), seed)[1] for other in (seed + 1, seed + 2))


WANTED = st.sets(st.sampled_from(EVERY), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), wanted=WANTED, least=st.floats(0.0, 1.0))
def test_what_is_left_fails_and_nothing_of_it_can_be_left_out(seed: int, wanted: set[Any], least: float) -> None:
    """It fails where a fault of each wanted kind is there, those that last for long enough."""

    def fails(schedule: Schedule) -> bool:
        return all(any(type(fault) is kind and getattr(fault, "duration", 1.0) >= least for fault in schedule) for kind in wanted)

    whole = drawn(seed, EVERY)
    if not fails(whole):
        with pytest.raises(ValueError, match="does not fail"):
            shrink(whole, fails)
        return
    smallest = shrink(whole, fails)
    assert fails(smallest)
    assert {type(fault) for fault in smallest} == wanted
    assert not any(fails(smallest[:place] + smallest[place + 1 :]) for place in range(len(smallest)))
    assert smallest == shrink(whole, fails) == shrink(smallest, fails)


def test_numbers_become_simple() -> None:
    schedule: tuple[Fault, ...] = (Crash("worker/1", 3.141593), Stall("worker/2", 2.718282, 1.414214), Exit("worker/3", 200, step=7))
    assert shrink(schedule, lambda tried: len(tried) == 3) == (
        Crash("worker/1", 0.0),
        Stall("worker/2", 0.0, 1.0),
        Exit("worker/3", 0, step=1),
    )
    late = shrink(schedule, lambda tried: any((begins(fault) or 0.0) > 2.9 for fault in tried))
    assert late == (Crash("worker/1", 3.0),)


def test_a_failing_run_is_named_by_its_seed_and_its_fewest_faults() -> None:
    def fails(schedule: Schedule) -> bool:
        ending, _ = play(schedule)
        return ending is None or len(ending.lost) >= 2

    with pytest.raises(AssertionError, match=r"seed \d+ fails, with 2 of its \d faults") as caught:
        refute(fails, range(50), drawn)
    with pytest.raises(AssertionError) as again:
        refute(fails, range(50), drawn)
    assert str(again.value) == str(caught.value)
    refute(lambda schedule: False, range(5), drawn)
