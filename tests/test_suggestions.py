"""The names that an error suggests for a wrong one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.errors import did_you_mean, nearest, unknown
from polyrhythm.systems import SYSTEMS
from polyrhythm.workloads.registry import WORKLOADS


@pytest.mark.parametrize(
    ("given_name", "known", "meant"),
    [
        ("digits", list(WORKLOADS), ["digits-cnn", "digits-mlp"]),
        ("chars", ["chars-gpt", "chars-gpt-5m", "digits-cnn"], ["chars-gpt", "chars-gpt-5m"]),
        ("box-4", ["box-1", "box-2", "box-3", "box-5", "attic"], ["box-1", "box-2", "box-3"]),
        ("SSP", ["ssp", "easgd"], ["ssp"]),
        ("esgd", ["easgd", "eamsgd"], ["easgd"]),
        ("fti", ["fit", "train"], ["fit"]),
        ("digts", list(WORKLOADS), ["digits-cnn", "digits-mlp"]),
        ("nothing-like-it", ["ssp", "easgd"], []),
    ],
)
def test_names_that_are_equally_near_are_all_suggested_up_to_three(given_name: str, known: list[str], meant: list[str]) -> None:
    assert [name for name in nearest(given_name, known) if name in meant] == meant
    assert len(nearest(given_name, known)) <= 3


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--batcher", ["--machines", "--arrivals"]),
        ("--network", ["--workers", "--twin"]),
        ("--trace", ["--step"]),
        ("--cut", ["--out", "--count-headers"]),
        ("--site", ["--steps"]),
        ("--loss", ["--hosts"]),
        ("--", ["--out"]),
    ],
)
def test_an_option_is_not_near_another_for_the_dashes_that_all_have(option: str, known: list[str]) -> None:
    assert nearest(option, known) == []


@pytest.mark.parametrize(
    ("option", "meant"), [("--jsom", "--json"), ("--output", "--out"), ("-workers", "--workers"), ("--repots", "--report")]
)
def test_a_misspelt_option_finds_the_one_that_was_meant(option: str, meant: str) -> None:
    assert nearest(option, ["--json", "--out", "--workers", "--report", "--seed"]) == [meant]


@given(st.text(max_size=12))
def test_what_is_suggested_is_known_and_no_more_than_three(text: str) -> None:
    found = nearest(text, SYSTEMS)
    assert len(found) <= 3
    assert set(found) <= set(SYSTEMS)


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_a_name_in_capitals_is_recognised(name: str) -> None:
    assert nearest(name.upper(), SYSTEMS)[0] == name


def test_several_are_asked_for_in_one_sentence() -> None:
    assert did_you_mean(["a", "b", "c"]) == "Did you mean 'a', 'b' or 'c'?"
    assert did_you_mean(["a"]) == "Did you mean 'a'?"
    assert str(unknown("machine", "box-3", ["box-1", "box-2"])) == "No machine is called 'box-3'. Did you mean 'box-1' or 'box-2'?"
    assert str(unknown("machine", "x", ["box-1", "box-2"])) == "No machine is called 'x'. There are: box-1, box-2."
