"""A launcher's output is hidden for a moment."""

from __future__ import annotations

import os

import pytest

from polyrhythm.integrations.launcher import alone


def test_the_process_is_alone_within_and_what_it_was_after_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(KeyError, match="RANK"), alone():
        os.environ["RANK"]
    assert (os.environ["RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]) == ("1", "2")
    assert "WORLD_SIZE" not in os.environ
