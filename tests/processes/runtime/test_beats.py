"""Slow, held, stopped, cut off or dead: found from beats, in a time that the test makes."""

import math
import random
import statistics
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.processes.runtime.beat import EVERY_SECONDS, Beat, decode
from polyrhythm.core.processes.runtime.beats import CEILING_SECONDS, LOOK_SECONDS, BeatLimits, BeatObserver, Liveness
from polyrhythm.core.processes.runtime.suspicions import Suspicions
from polyrhythm.errors import CompositionError

FAR = "worker/1"
SECOND = 1_000_000_000
seeds = st.integers(0, 1 << 32)


def observer(state: Callable[[], str | None] = lambda: "R", names: Iterable[str] = ("worker/0", FAR), **limits: float) -> BeatObserver:
    made = BeatObserver(BeatLimits(**limits), lambda name, pid: state())
    made.begin(names)
    return made


class Heart:
    """A process that beats: `seconds` after 1000 s of its own clock it is in a phase since some second of these."""

    def __init__(self, seen: BeatObserver, name: str = FAR, native: bool = True) -> None:
        self.seen, self.name, self.native = seen, name, native
        self.number = self.pulse = self.step = self.computed = self.longest = self.writing = 0
        self.phase = 1
        self.now = 0.0

    def since(self, second: float) -> int:
        return round((1000 + second) * SECOND)

    def beat(self, gap: float = EVERY_SECONDS, python: bool = True) -> float:
        self.now += gap
        self.number += 1
        self.pulse += python
        numbers = self.step, self.pulse, self.phase, self.computed, self.longest, self.writing
        self.seen.beat(self.name, Beat(self.number, self.since(self.now), 7, *numbers, self.native), self.now)
        return self.now

    def steps(self, seconds: float, count: int) -> None:
        """Take steps that compute for so long each; the last of them has just ended."""
        for _ in range(count):
            self.step += 1
            self.computed += round(seconds * SECOND)
            self.longest = max(self.longest, round(seconds * SECOND))
            for _ in range(max(1, round(seconds / EVERY_SECONDS))):
                self.beat()
        self.phase = self.since(self.now)

    def verdict(self, later: float = 0.0) -> Liveness:
        return self.seen.findings(self.now + later)[self.name].verdict


def gaps(seed: int, deviation: float, count: int) -> list[float]:
    draw = random.Random(seed)
    return [EVERY_SECONDS * draw.lognormvariate(0.0, deviation) for _ in range(count)]


def silence_until(heart: Heart, verdict: Liveness, ended: float) -> float:
    """Seconds from the end of the process until an observer that looks at intervals finds `verdict`."""
    later = ended
    while heart.verdict(later) is not verdict:
        later += LOOK_SECONDS
    return later


@given(seeds, st.floats(0.05, 0.8))
def test_false_alarms_are_rare_where_gaps_are_lognormal(seed: int, deviation: float) -> None:
    heart = Heart(observer(lambda: None))
    alarms = 0
    for gap in gaps(seed, deviation, 300):
        alarms += heart.number > 0 and heart.verdict(gap) is Liveness.UNREACHABLE
        heart.beat(gap)
    assert alarms <= 1


@given(seeds, st.floats(0.05, 3.0))
def test_no_silence_is_longer_than_3_seconds_before_it_is_found(seed: int, deviation: float) -> None:
    heart = Heart(observer(lambda: None))
    for gap in gaps(seed, deviation, 100):
        heart.beat(gap)
    assert silence_until(heart, Liveness.UNREACHABLE, random.Random(seed).uniform(0, LOOK_SECONDS)) <= 3.0
    assert CEILING_SECONDS + LOOK_SECONDS <= 3.0


def test_the_median_silence_before_it_is_found_is_below_a_second_where_gaps_are_usual() -> None:
    draw = random.Random(0)
    found = []
    for seed in range(20):
        heart = Heart(observer(lambda: None))
        for gap in gaps(seed, 0.3, 400):
            heart.beat(gap)
        # the process ends between two beats, and observers look at any time
        found.append(silence_until(heart, Liveness.UNREACHABLE, draw.uniform(0, LOOK_SECONDS)) - draw.uniform(0, EVERY_SECONDS))
    assert statistics.median(found) <= 1.0


@pytest.mark.parametrize(
    ("state", "later", "expected"),
    [("T", 0.8, "stopped"), ("t", 0.8, "stopped"), ("S", 2.0, "alive"), ("S", 3.0, "stopped"), ("Z", 0.8, "dead"), ("", 0.8, "dead")],
)
def test_silence_on_the_same_host_means_what_the_kernel_says(state: str, later: float, expected: str) -> None:
    heart = Heart(observer(lambda: state))
    heart.beat()
    assert heart.verdict(0.6) is Liveness.ALIVE
    assert heart.verdict(later) == expected


def test_a_status_that_comes_is_a_sign_of_life_where_beats_are_blocked() -> None:
    heart = Heart(observer(lambda: None))
    heart.beat()
    heart.seen.heard(FAR, heart.now + 2.0)
    assert heart.verdict(2.5) is Liveness.ALIVE
    assert heart.verdict(5.0) is Liveness.UNREACHABLE
    heart.seen.heard(FAR, heart.now + 5.1)
    assert heart.verdict(1000.0) is Liveness.ALIVE  # its datagrams do not come through
    heart.beat(1000.0)
    assert heart.verdict(5.0) is Liveness.UNREACHABLE


def test_one_whose_beats_have_never_come_is_not_judged_by_them() -> None:
    assert observer(lambda: None).findings(1e9)[FAR].verdict is Liveness.ALIVE


def test_beats_without_a_pulse_are_a_process_that_keeps_the_gil_until_it_has_let_it_go() -> None:
    heart = Heart(observer())
    for _ in range(200):
        heart.beat()
    held = 0.0
    while heart.verdict() is not Liveness.HELD:
        held = heart.beat(python=False) - 20.0
    assert held <= 1.6
    assert "no Python has run in it for" in heart.seen.reason(FAR, heart.now)
    heart.beat()
    assert heart.verdict() is Liveness.ALIVE


def test_silence_without_the_extension_may_be_a_call_that_keeps_the_gil() -> None:
    heart = Heart(observer(lambda: "R"), native=False)
    heart.beat()
    assert heart.verdict(3.0) is Liveness.HELD


def test_a_write_that_lasts_is_named_and_a_short_one_is_not() -> None:
    heart = Heart(observer())
    heart.beat()
    heart.writing = heart.since(heart.now)
    heart.beat()
    assert heart.verdict(0.5) is Liveness.ALIVE
    assert heart.verdict(0.65) is Liveness.ALIVE
    for _ in range(10):
        heart.beat()
    assert heart.verdict() is Liveness.WRITING
    assert heart.seen.reason(FAR, heart.now) == "it has been writing to a disk for 1 s"


@given(st.floats(0.002, 1.0), st.integers(5, 20))
def test_a_step_is_slow_when_it_takes_far_longer_than_those_before(seconds: float, count: int) -> None:
    heart = Heart(observer())
    heart.steps(seconds, count)
    began = heart.now
    while heart.now < began + 2 * seconds:
        heart.beat()
        assert heart.verdict() is Liveness.ALIVE
    while heart.verdict() is not Liveness.SLOW:
        heart.beat()
    assert max(2.0, 2 * seconds) <= heart.now - began <= max(2.2, seconds * math.exp(5 * (15 / 16) ** (count / 2 - 1)) + 0.2)
    assert "where steps took up to" in heart.seen.reason(FAR, heart.now)


def test_a_prediction_stands_in_for_steps_that_were_not_measured() -> None:
    for limits, expected in (({}, Liveness.ALIVE), ({"step": 1.0}, Liveness.SLOW)):
        heart = Heart(observer(**limits))
        heart.phase = heart.since(0.0)
        for _ in range(40):
            heart.beat()
        assert heart.verdict() is expected


def test_who_has_evaluated_for_long_may_do_so_again() -> None:
    heart = Heart(observer())
    heart.steps(0.01, 50)
    heart.longest = 30 * SECOND
    for _ in range(300):
        heart.beat()
    assert heart.verdict() is Liveness.ALIVE


def test_who_waits_waits_for_the_suspects_or_else_for_those_that_compute() -> None:
    seen = observer(names=["worker/0", "worker/1", "worker/2", "server/0"])
    hearts = {name: Heart(seen, name) for name in ("worker/0", "worker/1", "worker/2", "server/0")}
    for name in ("worker/0", "server/0"):
        hearts[name].phase = -hearts[name].since(0.0)
    for heart in hearts.values():
        heart.beat()
    waits = seen.findings(0.1)["worker/0"]
    assert (waits.verdict, waits.whom) == (Liveness.WAITING, ("worker/1", "worker/2"))
    seen.gone("worker/2", 0.1)
    assert seen.findings(0.1)["worker/0"].whom == ("worker/2",)
    seen.forget("worker/2")
    assert seen.findings(0.1)["worker/0"].whom == ("worker/1",)


def test_a_suspect_is_one_change_and_so_is_its_return() -> None:
    heart = Heart(observer(lambda: "T"))
    suspicions = Suspicions(heart.seen)
    suspicions.look(0.0)
    heart.beat()
    looks = [suspicions.look(at) for at in (0.25, 0.5, 0.75, 1.0, 1.25)]
    heart.beat(1.3)
    looks.append(suspicions.look(1.5))
    assert [[found.verdict for found in changes] for changes, _ in looks] == [[], [], [], ["stopped"], [], ["alive"]]
    assert [[found.name for found in suspects] for _, suspects in looks] == [[], [], [], [FAR], [FAR], []]


def test_an_observer_that_has_stood_still_itself_suspects_nobody() -> None:
    heart = Heart(observer(lambda: None))
    suspicions = Suspicions(heart.seen)
    suspicions.look(0.0)
    heart.beat()
    assert suspicions.look(60.0) == ([], [])
    assert suspicions.look(60.25)[0]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=9, max_size=9), st.booleans(), st.integers(0, (1 << 32) - 1))
def test_a_packet_is_the_beat_that_was_sent(numbers: list[int], native: bool, tag: int) -> None:
    beat = replace(Beat(*numbers), native=native)
    assert decode(beat.encode(tag)) == (tag, beat)


@pytest.mark.parametrize("wrong", [{"deviations": 0.0}, {"floor": 0.05}, {"floor": 5.0}, {"floor": math.nan}, {"step": -1.0}], ids=str)
def test_limits_that_cannot_be_kept_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(CompositionError, match="give"):
        BeatLimits(**wrong)
