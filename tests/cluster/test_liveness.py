"""The state machine of hosts and devices."""

from __future__ import annotations

import pytest

from polyrhythm.cluster import Health, LivenessRules, LivenessWatch, PartLost, PartRestored, PartSuspected, Probe, Vitals
from polyrhythm.errors import CompositionError

RULES = LivenessRules(misses=3, clean=2, flaps=2, window=100.0)


def health(probes: str, rules: LivenessRules = RULES, step: float = 1.0) -> list[Health]:
    """The health after each probe: c is clean, m missed, f fatal, a of an application."""
    kinds = {"c": Probe.CLEAN, "m": Probe.MISSED, "f": Probe.FATAL, "a": Probe.APPLICATION}
    vitals, found = Vitals(), []
    for number, letter in enumerate(probes):
        vitals = vitals.after(kinds[letter], number * step, rules)
        found.append(vitals.health)
    return found


def test_one_miss_is_suspect_three_are_dead_and_clean_probes_bring_it_back() -> None:
    assert [each.value for each in health("mcmmmccc")] == [
        *("suspect", "healthy", "suspect", "suspect", "dead", "recovering", "healthy", "healthy")
    ]


def test_a_miss_while_it_recovers_is_the_same_death() -> None:
    assert [each.value for each in health("fcmcc")] == ["dead", "recovering", "dead", "recovering", "healthy"]


def test_what_flaps_is_cordoned_and_stays_so() -> None:
    assert health("fcc" * 3 + "ccc")[-4:] == [Health.CORDONED] * 4
    assert Health.CORDONED not in health("fcc" * 6, step=30.0)


def test_errors_of_programs_are_only_counted() -> None:
    assert health("aaaa") == [Health.HEALTHY] * 4
    assert Vitals().after(Probe.APPLICATION, 0.0, RULES).application_errors == 1


def test_without_a_driver_all_devices_of_the_host_are_lost_and_others_are_as_they_were() -> None:
    watch, events = LivenessWatch(RULES).after("a", 3, Probe.NO_DRIVER, 0.0)
    assert events == (PartLost("a"),)
    watch, events = watch.after("b", 1, Probe.FATAL, 0.0)
    assert events == (PartLost("b", 1),)
    for _ in range(2):
        watch, events = watch.after("a", None, Probe.CLEAN, 1.0)
    assert events == (PartRestored("a"),)


def test_suspicion_and_its_end_are_events() -> None:
    watch, events = LivenessWatch(RULES).after("a", None, Probe.MISSED, 0.0)
    assert events == (PartSuspected("a"),)
    watch, events = watch.after("a", None, Probe.CLEAN, 1.0)
    assert events == (PartRestored("a"),)
    assert watch.after("a", None, Probe.CLEAN, 2.0)[1] == ()


def test_a_cordoned_part_returns_when_a_person_lets_it() -> None:
    watch = LivenessWatch(RULES)
    for time, letter in enumerate("fccfccf"):
        watch, _ = watch.after("a", None, Probe.FATAL if letter == "f" else Probe.CLEAN, float(time))
    assert watch.parts["a", None].health is Health.CORDONED
    watch = watch.uncordoned("a")
    watch, _ = watch.after("a", None, Probe.CLEAN, 10.0)
    watch, events = watch.after("a", None, Probe.CLEAN, 11.0)
    assert events == (PartRestored("a"),)


def test_rules_below_one_are_refused() -> None:
    with pytest.raises(CompositionError, match="below one"):
        LivenessRules(misses=0)
