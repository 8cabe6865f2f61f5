"""What a child reports of its end must arrive, whatever is in it."""

import pytest

from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.transport.decoder import Decoder
from polyrhythm.core.processes.transport.wire import CONTROL, encode
from polyrhythm.errors import DivergedError, WorkerFailed


def through_the_wire(error: BaseException) -> Exception:
    data = b"".join(map(bytes, encode(failure.failure_message("worker/1", error), CONTROL)))
    (frame,) = Decoder().feed(data)
    return failure.rebuild(frame.message)


@pytest.mark.parametrize(
    "text", ["\N{GRINNING FACE}" * 30_000, "\0" * 30_000, "no file na\udcefve.csv"], ids=["wide", "escaped", "not text"]
)
def test_an_error_of_any_text_and_length_arrives_as_what_it_is(text: str) -> None:
    problem = through_the_wire(ValueError(text))
    assert isinstance(problem, WorkerFailed)
    assert problem.reason.startswith(f"ValueError: {text[:10]}")


def test_an_error_of_ours_keeps_its_class() -> None:
    assert type(through_the_wire(DivergedError("nan"))) is DivergedError


def test_a_death_by_a_signal_without_a_name_can_be_reported() -> None:
    assert failure.exit_reason(-9) == "killed by signal 9 (SIGKILL)"
    assert failure.exit_reason(-40) == "killed by signal 40"
    assert failure.exit_reason(3) == "its process ended early with exit code 3"
