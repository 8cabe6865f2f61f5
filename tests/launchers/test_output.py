"""What a task prints, on its way to the driver."""

import sys

from polyrhythm.launchers.output import echoed


def test_whole_lines_are_sent_and_what_stands_after_the_last_at_the_end() -> None:
    sent: list[tuple[str, str]] = []
    with echoed(lambda stream, text: sent.append((stream, text)), wanted=True):
        print("one")
        print("two\nthree", end="")
        print("oh", file=sys.stderr)
    assert sent == [("stdout", "one\n"), ("stdout", "two\n"), ("stderr", "oh\n"), ("stdout", "three")]


def test_nothing_is_sent_where_the_engine_shows_it() -> None:
    sent: list[tuple[str, str]] = []
    with echoed(lambda stream, text: sent.append((stream, text)), wanted=False):
        print("one")
    assert sent == []
