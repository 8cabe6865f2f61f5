"""`polyrhythm lab` as a person types it; what needs root is in tests/lab."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hosts", "3", "--network", "slwo", "--", "true"], ["No network is called 'slwo'", "Did you mean 'slow'"]),
        (["--hosts", "3", "--network", "none.json", "--", "true"], ["The network file 'none.json' cannot be read"]),
        (["--hosts", "0", "--network", "slow", "--", "true"], ["0 hosts", "from 1 to 250"]),
        (["--hosts", "2", "--network", "slow"], ["No command was given", "-- python train.py"]),
        (["--hosts", "2", "--network", "slow", "--", "no-such-program", "--json"], ["no program 'no-such-program'", "PATH"]),
        (["--hosts", "2", "--network", "slow", "--loss", "1.5", "--", "true"], ["probability"]),
        (["--hosts", "2", "--network", "slow", "--loss", "0:2=0.1", "--", "true"], ["no such pair", "0 to 1"]),
        (["--hosts", "2", "--network", "slow", "--jitter-ms", "21", "--", "true"], ["jitter of 21 ms", "at most 20"]),
        (["--hosts", "2", "--network", "slow", "--jitter-ms", "much", "--", "true"], ["--jitter-ms was given 'much'", "0:1=2.5"]),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(polyrhythm: Any, arguments: list[str], words: list[str]) -> None:
    result = polyrhythm("lab", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("polyrhythm: ")
    assert result.err.count("\n") == 1
    for word in words:
        assert word in result.err


def test_a_user_who_is_not_root_is_refused(polyrhythm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    result = polyrhythm("lab", "--hosts", 2, "--network", "slow", "true", "--its", "own", "--options")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "requires root" in result.err


def test_a_network_that_is_too_fast_for_the_lab_is_remarked_on(polyrhythm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "lan gives a host 10 Gbit/s" in polyrhythm("lab", "--hosts", 2, "--network", "lan", "true").err
