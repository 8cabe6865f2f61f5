"""One thread waits for another."""

import pytest

from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.errors import RunError


def test_the_first_call_counts_also_when_its_value_has_been_fetched_already() -> None:
    completion = Completion()
    completion.finish("first", None)
    completion.finish("second", None)
    assert completion.wait() == "first"
    # as one that comes between the end of the wait and its return
    completion.finish(None, RunError("late"))
    assert (completion._value, completion._error) == ("first", None)


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    completion = Completion()
    completion.finish(None, RunError("why"))
    with pytest.raises(RunError, match="why"):
        completion.wait()
