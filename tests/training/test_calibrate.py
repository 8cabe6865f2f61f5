"""Steps are timed in real processes, which are gone when enough of them were seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toy import Toy

from polyrhythm import systems
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.tools.measuring.calibrate import WARM_UP_STEPS, device_profile


def children() -> set[int]:
    """The processes that this one has started, and those that they have."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" ")
        except OSError:
            continue
        parents[int(pid)] = int(rest.rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def test_as_many_steps_as_were_requested_are_timed() -> None:
    profile = device_profile(Toy(epochs=1000, batch_size=4), workers=2, steps=7)
    assert len(profile.seconds_per_step) == 7
    assert min(profile.seconds_per_step) > 0


def test_no_worker_is_left_when_a_run_was_ended_early() -> None:
    device_profile(Toy(epochs=1, batch_size=1), workers=1, steps=1)  # what is kept from run to run is started now
    before = children()
    device_profile(Toy(epochs=100_000, batch_size=4), workers=2, steps=3)
    assert children() <= before


@pytest.mark.parametrize("system", ["allreduce", "downpour", "single"])
def test_a_system_is_timed_with_what_it_computes(system: str) -> None:
    profile = device_profile(Toy(epochs=1000, batch_size=4), workers=2, steps=3, strategy=systems.find(system))
    assert len(profile.seconds_per_step) == 3


@pytest.mark.parametrize(("system", "workers", "merges"), [("allreduce", 2, False), ("downpour", 1, True), ("strom", 2, True)])
def test_what_is_merged_one_by_one_is_timed_for_itself(system: str, workers: int, merges: bool) -> None:
    profile = device_profile(Toy(epochs=1000, batch_size=4), workers=workers, steps=5, strategy=systems.find(system))
    assert (profile.seconds_per_contribution > 0) == merges
    assert min(profile.seconds_per_step) >= 0


def test_a_training_function_that_ends_earlier_gives_the_steps_that_it_took() -> None:
    toy = Toy(epochs=1, batch_size=2)
    taken = len(device_profile(toy, workers=1, steps=1000).seconds_per_step)
    assert 2 <= taken < 1000


@pytest.mark.parametrize(("toy", "steps", "words"), [(Toy(epochs=0), 5, str(WARM_UP_STEPS)), (Toy(), 0, "0 steps")])
def test_too_few_steps_are_refused(toy: Toy, steps: int, words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        device_profile(toy, steps=steps)


def test_what_a_training_function_raises_is_raised() -> None:
    def broken(worker: object) -> None:
        raise ArithmeticError("sums are hard")

    with pytest.raises(WorkerFailed, match="sums are hard"):
        device_profile(broken, workers=2, steps=3)
