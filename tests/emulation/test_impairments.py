"""Jitter and loss as a person writes them."""

from __future__ import annotations

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.tools.emulation.impairments import Amount, Impairments, amount


def test_a_number_holds_everywhere_and_a_pair_has_its_own() -> None:
    read = amount("--jitter-ms", ["2", "0:2=5.5", "0:2=6"], 3, 1e-3)
    assert read.between(1, 2) == pytest.approx(0.002)
    assert read.between(0, 2) == pytest.approx(0.006)
    assert read.between(2, 0) == pytest.approx(0.002)
    assert read.some
    assert not Amount().some


@pytest.mark.parametrize("text", ["", "x", "-1", "1:2", "0:1=", "0-1=2", ".", "1.2.3", "0:3=1", "1:1=1"])
def test_what_is_neither_a_number_nor_a_pair_is_refused(text: str) -> None:
    with pytest.raises(CompositionError, match="--loss was given"):
        amount("--loss", [text], 3)


@pytest.mark.parametrize("loss", [Amount(1.0), Amount(0.0, [(0, 1, 2.0)])])
def test_a_loss_of_everything_is_refused(loss: Amount) -> None:
    with pytest.raises(CompositionError, match="probability"):
        Impairments(loss=loss)
