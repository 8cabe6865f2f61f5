import time

import pytest

from polyrhythm.core.processes.transport.secret import derive
from polyrhythm.errors import CompositionError


def test_the_same_text_gives_the_same_key_everywhere_and_another_text_another() -> None:
    assert derive("correct horse battery staple").hex() == derive("correct horse battery staple").hex()
    assert len(derive("correct horse battery staple")) == 32
    assert derive("correct horse battery staple") != derive("correct horse battery staplf")


def test_a_guess_costs_more_than_ten_milliseconds_and_the_right_text_once() -> None:
    began = time.process_time()
    for _ in range(3):
        derive("a secret of this test")
    assert time.process_time() - began > 0.01


def test_a_short_secret_is_refused_with_how_to_make_one() -> None:
    with pytest.raises(CompositionError, match=r"has 15 characters.*16 or more.*secrets.token_hex\(16\)"):
        derive("x" * 15)
