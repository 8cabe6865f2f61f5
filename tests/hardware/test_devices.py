"""Devices, profiles and fleets: how long a step takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyrhythm.errors import CompositionError, PolyrhythmError, UnknownNameError
from polyrhythm.hardware.device_presets import TERMS
from polyrhythm.hardware.devices import DEVICES, Device, Profile, files_of, load
from polyrhythm.hardware.fleet import Fleet, Jitter, Mixed, Pace, RandomStragglers, Straggler, Uniform, fleet
from polyrhythm.hardware.machine_terms import PLAIN

DEVICE = Device("d", 1000.0, 0.5)


def times(given: Fleet, rank: int, steps: int, seed: int = 0) -> list[float]:
    """The first `steps` steps of a worker, of 1,000 operations each."""
    timer = given.timer(f"worker/{rank}", seed)
    return [timer.step_seconds(1000.0, 32) for _ in range(steps)]


def test_a_device_charges_its_overhead_and_the_operations_over_its_speed() -> None:
    assert DEVICE.step_seconds(2000.0, 0) == 2.5
    assert times(Fleet((DEVICE,), (Uniform(),)), 0, 2) == [1.5, 1.5]


def test_the_presets_are_ordered_as_the_machines_are() -> None:
    order = ["raspberry-pi-4", "cpu-core", "laptop", "t4", "v100", "a100", "h100"]
    speeds = [DEVICES[name].flops for name in order]
    assert speeds == sorted(speeds)


def test_a_profile_charges_what_was_measured_in_rotation() -> None:
    given = Fleet((Profile("p", (1.0, 3.0)),))
    assert times(given, 0, 5) == [1.0, 3.0, 1.0, 3.0, 1.0]


def test_machines_and_speeds_are_dealt_in_rotation() -> None:
    given = Fleet((DEVICE, Device("e", 500.0)), (Mixed((1.0, 1.0, 0.5)),))
    assert [times(given, rank, 1)[0] for rank in range(6)] == [1.5, 2.0, 3.0, 2.0, 1.5, 4.0]


def test_paces_multiply() -> None:
    given = Fleet((DEVICE,), (Straggler(1, 3.0), RandomStragglers(1.0, 2.0)))
    assert [times(given, rank, 1)[0] for rank in (0, 1)] == [3.0, 9.0]


def test_the_same_seed_gives_the_same_times_and_workers_differ() -> None:
    given = Fleet((DEVICE,), (Jitter(0.3), RandomStragglers(0.1, 5.0)))
    assert times(given, 0, 50, seed=4) == times(given, 0, 50, seed=4)
    assert times(given, 0, 50, seed=4) != times(given, 0, 50, seed=5)
    assert times(given, 0, 50) != times(given, 1, 50)


def test_adding_a_pace_moves_no_draw_of_another() -> None:
    alone = times(Fleet((DEVICE,), (Jitter(0.3),)), 0, 20)
    paces: tuple[Pace, ...] = (Jitter(0.3), RandomStragglers(0.5, 1.0))
    assert times(Fleet((DEVICE,), paces), 0, 20) == alone


def test_jitter_keeps_the_mean_and_random_stragglers_occur_as_often_as_declared() -> None:
    jittered = np.array(times(Fleet((DEVICE,), (Jitter(0.5),)), 0, 20_000)) / 1.5
    assert jittered.mean() == pytest.approx(1.0, rel=0.02)
    assert np.log(jittered).std() == pytest.approx(0.5, rel=0.02)
    slowed = np.array(times(Fleet((DEVICE,), (RandomStragglers(0.2, 4.0),)), 0, 20_000)) > 2
    assert slowed.mean() == pytest.approx(0.2, rel=0.05)


def test_a_timer_counts_operations_or_charges_measured_steps_but_never_both() -> None:
    counted = Fleet((DEVICE,), (Straggler(1, 2.0),)).timer("worker/1", 0)
    assert (counted.step_seconds(1000.0, 32), counted.seconds(1000.0)) == (3.0, 2.0)
    measured = Fleet((Profile("p", (1.0, 3.0)),), (Straggler(1, 2.0),), server=Device("s", 100.0, 7.0))
    timer = measured.timer("worker/1", 0)
    assert (timer.seconds(1000.0), timer.step_seconds(1000.0, 32), timer.step_seconds(1000.0, 32)) == (0.0, 2.0, 6.0)
    server = measured.timer("server/1", 0)
    assert (server.seconds(1000.0), server.step_seconds(1000.0, 32)) == (10.0, 0.0)


def test_work_that_is_no_step_pays_no_overhead_and_is_slowed_as_the_step_before_without_a_draw() -> None:
    given = Fleet((DEVICE,), (Jitter(0.5),))
    timer, undisturbed = (given.timer("worker/1", 4) for _ in range(2))
    assert timer.seconds(1000.0) == 1.0
    for _ in range(3):
        step = timer.step_seconds(1000.0, 32)
        assert step == undisturbed.step_seconds(1000.0, 32)
        assert [timer.seconds(1000.0) for _ in range(2)] == pytest.approx([step / 1.5] * 2)


def test_merging_is_charged_as_it_was_measured_or_not_at_all() -> None:
    profile = Profile("p", (1.0,), 0.25)
    own = fleet(profile)
    assert [own.timer(actor, 0).merge_seconds(3) for actor in ("worker/0", "server/0")] == [0.75, 0.75]
    assert own.timer("server/0", 0).seconds(1000.0) == 0.0
    assert [fleet(DEVICE).timer(actor, 0).merge_seconds(3) for actor in ("worker/0", "server/0")] == [0.0, 0.0]
    with pytest.raises(CompositionError, match="-1"):
        Profile("p", (1.0,), -1.0)


def test_what_the_user_gives_becomes_a_fleet(tmp_path: Path) -> None:
    assert fleet("t4") == Fleet((DEVICES["t4"],), terms=(TERMS["t4"],))
    assert fleet(DEVICE) == Fleet((DEVICE,))
    assert fleet(Fleet((DEVICE,))) == Fleet((DEVICE,))
    path = tmp_path / "mine.json"
    path.write_text('{"name": "mine", "flops": "10 GFLOPS", "overhead": "2 ms"}')
    assert fleet(path).machines == (Device("mine", 10e9, 2e-3),)
    path.write_text('{"name": "mine", "seconds_per_step": [0.1, 0.2]}')
    assert load(str(path)) == Profile("mine", (0.1, 0.2))
    path.write_text('{"name": "mine", "seconds_per_step": 0.1}')
    assert load(path) == Profile("mine", (0.1,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "x"}', "must give flops or seconds_per_step"),
        ('{"name": "x", "flops": 1, "seconds_per_step": 1}', "and not several of them"),
        ('{"name": "x", "flop": 1}', "unknown field `flop`"),
        ('{"name": "x", "flops": 0}', "above zero"),
        ('{"name": "x", "seconds_per_step": []}', "needs the seconds"),
        ('{"name": "x", "flops": "quick"}', "not a speed"),
        ('{"name": "x", "machines": ["t4"], "flops": 1}', "and not several of them"),
        ('{"name": "x", "machines": ["h10"]}', "Did you mean 'h100'"),
        ('{"name": "x", "machines": ["t5.json"]}', "t5.json' cannot be read"),
        ('{"name": "x", "machines": [{"name": "y"}]}', "The machine 'y' in the device file .* must give flops"),
        ('{"name": "x", "machines": [{"name": "y", "machines": ["t4"]}]}', "The machine 'y' in the device file .* must give flops"),
        ('{"name": "x", "machines": ["device.json"]}', "The machine 'x' in the device file .* must give flops"),
        ('{"name": "x", "flops": 1, "paces": [{"type": "Jitter", "sigma": -1}]}', r"sigma -1.0. It must be zero or more.* `\$.paces"),
        ('{"name": "x", "flops": 1, "paces": [{"type": "Wobble"}]}', "Wobble"),
        ('{"name": "x", "flops": 1, "paces": [{"type": "Mixed", "speeds": [1], "slow": 2}]}', "unknown field `slow`"),
        ('{"name": "x", "machines": ["t4", "a100"]}', "is a fleet of machines and paces"),
    ],
)
def test_a_wrong_device_file_is_refused_with_a_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    path.write_text(text)
    with pytest.raises(PolyrhythmError, match=message):
        load(path)


def test_a_file_describes_mixed_machines_and_what_slows_them_as_a_fleet_in_python_does(tmp_path: Path) -> None:
    (tmp_path / "pi.json").write_text('{"name": "measured pi", "seconds_per_step": [0.5]}')
    (tmp_path / "calibrated").mkdir()
    (tmp_path / "calibrated" / "device.json").write_text('{"name": "old", "seconds_per_step": [0.2]}')
    path = tmp_path / "mixed.json"
    path.write_text(
        """{"name": "mixed", "machines": ["t4", "pi.json", "calibrated", {"name": "server", "flops": "15 GFLOPS", "overhead": "1 ms"}],
            "paces": [{"type": "Jitter", "sigma": 0.1}, {"type": "Mixed", "speeds": [1, 0.5]}, {"type": "Straggler", "worker": 3,
                       "factor": 4}, {"type": "RandomStragglers", "probability": 0.01, "factor": 10}, {"type": "Uniform"}],
            "server": "a100"}"""
    )
    machines = (DEVICES["t4"], Profile("measured pi", (0.5,)), Profile("old", (0.2,)), Device("server", 15e9, 1e-3))
    paces = (Jitter(0.1), Mixed((1.0, 0.5)), Straggler(3, 4.0), RandomStragglers(0.01, 10.0), Uniform())
    terms = (TERMS["t4"], PLAIN, PLAIN, PLAIN)
    assert fleet(path) == fleet(str(path)) == Fleet(machines, paces, DEVICES["a100"], terms)
    assert files_of(path) == [path, tmp_path / "pi.json", tmp_path / "calibrated" / "device.json"]
    assert files_of("t4") == []
    path.write_text('{"name": "pi", "seconds_per_step": [0.5], "paces": [{"type": "Jitter", "sigma": 0.1}]}')
    measured = Profile("pi", (0.5,))
    assert fleet(path) == Fleet((measured,), (Jitter(0.1),), measured)


def test_what_cannot_be_is_refused_when_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'h100'"):
        load("h10")
    with pytest.raises(CompositionError, match="cannot be read"):
        load(tmp_path / "missing.json")
    with pytest.raises(CompositionError, match="no machine"):
        Fleet(())
    with pytest.raises(CompositionError, match="speeds"):
        Mixed((1.0, 0.0))
    with pytest.raises(CompositionError, match="sigma"):
        Jitter(-1.0)
    with pytest.raises(CompositionError, match="factor"):
        Straggler(0, 0.0)
    with pytest.raises(CompositionError, match="probability"):
        RandomStragglers(1.5, 2.0)


def test_a_directory_stands_for_the_file_in_it(tmp_path: Path) -> None:
    with pytest.raises(CompositionError, match=r"device\.json' cannot be read"):
        load(tmp_path)
    (tmp_path / "device.json").write_text('{"name": "mine", "seconds_per_step": [0.1]}')
    assert load(tmp_path) == load(str(tmp_path)) == Profile("mine", (0.1,))
