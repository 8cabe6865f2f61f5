"""The failure of a child, as a message, and as an exception again in its parent."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport.wire import packed
from polyrhythm.errors import PolyrhythmError, Stopped, WorkerFailed, WorkerStopped

_PACKAGE = str(Path(__file__).resolve().parents[3])
_MOST_TEXT = 8_000
_MOST_TRACE = 24_000


class Failure(msgspec.Struct, frozen=True):
    """An exception: the names of its class and of the bases of that, nearest first; its text, and its traceback."""

    actor: str
    kinds: list[str]
    text: str
    trace: str


def failure_message(actor: str, error: BaseException) -> Message:
    """The message that `error` ended `actor`."""
    if isinstance(error, KeyboardInterrupt):
        how = f"stopped by {error.signal}" if isinstance(error, Stopped) else "interrupted"
        error = WorkerStopped(actor, f"it was {how}{', and a last checkpoint was written before' * bool(getattr(error, 'kept', None))}")
    text, trace = _text(error), _trace(error)
    if isinstance(error, WorkerFailed):
        actor, text, trace = error.actor, error.reason, error.trace
    kinds = [_name(kind) for kind in type(error).__mro__ if issubclass(kind, PolyrhythmError)]
    failure = Failure(actor, kinds, _encodable(text[:_MOST_TEXT]), _encodable(trace[-_MOST_TRACE:]))
    return Message("failed", tensors=packed(msgspec.json.encode(failure)))


def rebuild(message: Message) -> PolyrhythmError:
    """The error to raise in the parent: of the same class if it is one of ours, else WorkerFailed with the child's own traceback."""
    failure = msgspec.json.decode(message.tensors[0].numpy().data, type=Failure)
    known = {_name(kind): kind for kind in _tree(PolyrhythmError)}
    kind = next((known[name] for name in failure.kinds if name in known), WorkerFailed)
    if issubclass(kind, WorkerFailed):
        return kind(failure.actor, failure.text, failure.trace)
    return kind(failure.text)


def exit_reason(status: int) -> str:
    """A wait status as the reason in WorkerFailed."""
    if status < 0:
        return f"killed by {_signal(-status)}"
    return f"its process ended early with exit code {status}"


def exit_phrase(status: int) -> str:
    """A wait status as the predicate of a sentence on a process that should have lived on: "was killed by signal 9 (SIGKILL)"."""
    return f"was killed by {_signal(-status)}" if status < 0 else f"ended with exit code {status}; its earlier output should show why"


def _signal(number: int) -> str:
    known = {member.value: f" ({member.name})" for member in signal.Signals}  # most real-time signals have no name
    return f"signal {number}{known.get(number, '')}"


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _tree(kind: type[PolyrhythmError]) -> Iterator[type[PolyrhythmError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)


def _text(error: BaseException) -> str:
    if isinstance(error, PolyrhythmError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r})"
    return f"{type(error).__name__}: {error}"


def _encodable(text: str) -> str:
    """`text` without the lone surrogates that stand for undecodable bytes, as in the names of files."""
    return text.encode("utf-8", "backslashreplace").decode()


def _trace(error: BaseException) -> str:
    if error.__traceback__ is None:  # never raised here: there is nothing to see
        return ""
    return "".join(traceback.format_exception(type(error), error, users_part(error.__traceback__)))


def users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the runtime's own frames at its top."""
    at = trace
    while at is not None and at.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        at = at.tb_next
    return at or trace
