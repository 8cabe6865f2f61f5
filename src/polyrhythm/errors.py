"""The one tree of exceptions. Every error that a user can cause states what was given, why it cannot be, and what to do.

PolyrhythmError
├── CompositionError     pieces, options or a model that do not fit together; raised before anything runs
│   ├── RecordError      a directory in which a record cannot be written, such as on a full disk
│   ├── CheckpointError  a checkpoint that does not exist, is damaged, or belongs to another run
│   ├── ExportError      a model that another runtime cannot run, or whose file is over its budget
│   └── PredictorError   a file that is no model, or inputs that it does not take
├── UnknownNameError     a system, network, workload or option that does not exist; names the nearest that does
├── DataError            data that cannot be sharded over the workers
├── WorkloadError        a JOB that cannot be loaded, or a training function that broke its contract
│   ├── NoRankError      a program of torch.distributed that has started no rank
│   ├── GradientsError   steps that differ, so that the gradients of several virtual workers cannot be computed at once
│   └── ScriptEnded      a JOB file that refused its command line with its own message
├── DivergedError        a loss or an update that is NaN or infinite
└── RunError             a run that failed after it had started
    ├── WorkerFailed     a worker or server raised, or its process died
    │   └── WorkerStopped  a worker was asked to end, by SIGTERM or Ctrl-C
    ├── NoProgressError  a run that was started again and again, and took no further step
    ├── StateLostError   all workers that had the state of a run are lost; names those that are left
    ├── DeadlockError    every actor waits; names what each waits for
    └── WireError        malformed or unauthenticated bytes from a peer
        └── TamperedError  bytes that were changed between two hosts

Stopped is outside of the tree, as KeyboardInterrupt is: a signal such as SIGTERM has asked the process to end.

AliasWarning, DriftWarning, PlainEpochsWarning, RecordWarning, ResumedWarning and UnshardedWarning are not errors: the run continued, but
a tensor made before it does not follow a parameter any more, its replicas had drifted apart by rounding, a worker that joins would run the
code of earlier epochs, its record could not be written, its file is not what it was at the checkpoint, or its workers may all train on the
same data.
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable, Sequence

__all__ = [
    *("AliasWarning", "CheckpointError", "CompositionError", "DataError", "DeadlockError", "DivergedError", "DriftWarning", "ExportError"),
    "GradientsError",
    *(
        "NoProgressError",
        "NoRankError",
        "PlainEpochsWarning",
        "PolyrhythmError",
        "PredictorError",
        "RecordError",
        "RecordWarning",
        "ResumedWarning",
    ),
    "RunError",
    *(
        "StateLostError",
        "Stopped",
        "TamperedError",
        "UnknownNameError",
        "UnshardedWarning",
        "WireError",
        "WorkerFailed",
        "WorkerStopped",
        "WorkloadError",
    ),
]


_MOST, _NEAR, _AS_NEAR = 3, 0.7, 0.03
"""So many names are suggested, of at least that similarity (of `difflib`), which is at most so much below that of the nearest."""
_WORD, _AS_PART = 3, 0.75
"""A part of a name has at least so many letters, and counts as so similar."""


class PolyrhythmError(Exception):
    """The base of all errors; its text is one or two plain sentences."""


class CompositionError(PolyrhythmError, ValueError):
    """Pieces, options or a model that cannot work together."""


class RecordError(CompositionError):
    """A directory in which a record cannot be written."""


class CheckpointError(CompositionError):
    """A checkpoint that cannot be read, or that belongs to a run with other settings."""


class ExportError(CompositionError):
    """A model that cannot leave as a file for another runtime, or whose file is over its budget."""


class PredictorError(CompositionError):
    """A file that is no model, inputs that it does not take, or an output that it does not have."""


class UnknownNameError(PolyrhythmError, LookupError):
    """A name that is not in the list it was looked up in."""


class DataError(PolyrhythmError, ValueError):
    """Data that cannot be sharded over the workers."""


class WorkloadError(PolyrhythmError):
    """A training function or a JOB file that cannot be used."""


class NoRankError(WorkloadError):
    """A program of torch.distributed, which was to start its ranks itself, that has started none."""


class GradientsError(WorkloadError):
    """A training function whose steps differ, so that the gradients of several virtual workers cannot be computed at once."""


class ScriptEnded(WorkloadError):
    """A JOB file that its own argparse ended during import, after printing the reason; `code` is its exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[ScriptEnded], tuple[str, int]]:
        return (ScriptEnded, (str(self), self.code))


class DivergedError(PolyrhythmError, ArithmeticError):
    """A loss or an update that is NaN or infinite."""


class BrokenOff(PolyrhythmError):
    """A run was ended on purpose before its end; the text says why."""


class RunError(PolyrhythmError, RuntimeError):
    """A run that failed after it had started."""


class WorkerFailed(RunError):
    """A worker or server raised or died; `actor` names it and `trace` holds its own traceback, if it left one."""

    def __init__(self, actor: str, reason: str, trace: str = "") -> None:
        super().__init__(f"{actor} failed: {reason}" + (f"\n\n{trace}" if trace else ""))
        self.actor = actor
        self.reason = reason
        self.trace = trace

    def __reduce__(self) -> tuple[type[WorkerFailed], tuple[str, str, str]]:
        return (WorkerFailed, (self.actor, self.reason, self.trace))


class WorkerStopped(WorkerFailed):
    """A worker that was asked to end, by a signal such as SIGTERM."""

    def __reduce__(self) -> tuple[type[WorkerFailed], tuple[str, str, str]]:
        return (WorkerStopped, (self.actor, self.reason, self.trace))


class NoProgressError(RunError):
    """A run that was started again so often without a further step that another start would not help; commands end with `EXIT_CODE`."""

    EXIT_CODE = 93


class StateLostError(RunError):
    """A crew that lost all workers that had the state of the run, or a part of it, while others are left."""


class DeadlockError(RunError):
    """No actor can continue; the text names what each waits for."""


class WireError(RunError):
    """Bytes from a peer that are malformed, too large, of another version, or not signed with the job's secret."""


class TamperedError(WireError):
    """Bytes that a peer has sent, and that somebody between the two hosts has changed, repeated, reordered or left out."""


class Stopped(KeyboardInterrupt, SystemExit):
    """A signal has asked this process to end, which it does with exit code 128 plus the signal's `number` if nothing catches this.

    `kept` is true if a checkpoint was written before; None if none was tried. `reason` continues the
    sentence "stopped by SIGTERM": who sent the signal and why, as far as is known.
    """

    def __init__(self, number: int, kept: bool | None = None, reason: str = "") -> None:
        SystemExit.__init__(self, 128 + number)
        self.number = number
        self.kept = kept
        self.reason = reason
        self.is_told = False

    @property
    def signal(self) -> str:
        """The signal's name, such as SIGTERM."""
        return signal.Signals(self.number).name

    def __reduce__(self) -> tuple[type[Stopped], tuple[int, bool | None, str]]:
        return (Stopped, (self.number, self.kept, self.reason))


class AliasWarning(UserWarning):
    """A tensor shared a parameter's memory before `worker.attach`; it keeps the values of then, and does not follow the parameter."""


class DriftWarning(UserWarning):
    """Replicas that should be equal differ by rounding, and all take the weights of worker 0."""


class PlainEpochsWarning(UserWarning):
    """A plain loop counts epochs in a run that workers may join: one that joins runs the code of earlier epochs, without their batches."""


class RecordWarning(UserWarning):
    """Parts of a run's record could not be written, such as on a full disk; the run continued."""


class ResumedWarning(UserWarning):
    """A run was resumed with another training function's file, or other versions, than wrote its checkpoint."""


class UnshardedWarning(UserWarning):
    """Steps are taken without samples from `worker.batches`, `sampler` or `shard`: all workers may be training on the same data."""


def sentence(error: PolyrhythmError) -> str:
    """The text of the error, without the traceback of the user's code."""
    return f"{error.actor} failed: {error.reason}" if isinstance(error, WorkerFailed) else str(error)


def diverged(what: str) -> DivergedError:
    """The error for something that is not finite; `what` names it, where and when."""
    return DivergedError(
        f"{what}: the training diverged; lower the learning rate, clip gradients (attach(..., clip_norm=1.0)), or check the data for NaN."
    )


def unknown(kind: str, given: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not among `known`, with the nearest ones that are."""
    names = sorted(known)
    hint = did_you_mean(nearest(given, names)) or f"There are: {', '.join(names)}."
    return UnknownNameError(f"No {kind} is called {given!r}. {hint}")


def nearest(given: str, known: Iterable[str]) -> list[str]:
    """Up to three of `known` that are as near to `given` as the nearest, whatever their case; none if nothing is near.

    Names that begin with `given`, have it as one of their words, or are its beginning, are near too. The dashes before an option are no
    part of its name: all options have them.
    """
    typed = _bare(given)
    shares = {name: _alike(typed, _bare(name)) for name in known}
    best = max(shares.values(), default=0.0)
    near = [name for name, share in shares.items() if share >= max(_NEAR, best - _AS_NEAR)]
    return sorted(near, key=lambda name: (-shares[name], not _bare(name).startswith(typed), name))[:_MOST]


def _bare(name: str) -> str:
    return name.casefold().lstrip("-")


def _alike(typed: str, name: str) -> float:
    words = name.replace("_", "-").split("-")
    share = difflib.SequenceMatcher(None, typed, name).ratio()
    long = len(typed) >= _WORD
    # "digts" is the beginning of digits-cnn, with a letter left out; a shorter one would be the beginning of too much
    begun = difflib.SequenceMatcher(None, typed, words[0]).ratio() if len(typed) > _WORD and words[0][:1] == typed[0] else 0.0
    part = long and (name.startswith(typed) or typed in words or (len(name) >= _WORD and typed.startswith(name)))
    swapped = sorted(typed) == sorted(name)  # "fti" is fit, and has a small share of so few letters in the right order
    return max(share, min(begun, _AS_PART), _AS_PART if part or swapped else 0.0)


def did_you_mean(names: Sequence[str]) -> str:
    """The question for the nearest names: "Did you mean 'a', 'b' or 'c'?"; empty for none."""
    return f"Did you mean {either(names)}?" if names else ""


def either(names: Sequence[str]) -> str:
    """Names in quotes, of which one is meant: "'a', 'b' or 'c'"."""
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last
