"""The ways in which a training function differs from the one whose state it continues from, and the errors for them.

A resumed run continues from a checkpoint, and a worker that has joined a run from the state of another worker: each has a text of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from polyrhythm.errors import CheckpointError, CompositionError, WorkloadError


class OtherWay(NamedTuple):
    """A difference: the `text` for a resumed run, and the `fact` for a worker that has joined others, which continues "The worker …"."""

    text: str
    fact: str


STEP_TWICE = OtherWay(
    "A step is taken before the training function has come to where the checkpoint was written, so it would be taken twice: let loops "
    "without worker.batches count with worker.range(n) or worker.clock, which continue in a resumed run.",
    "takes a step before it has come to where the others are",
)
OUT_OF_ORDER = OtherWay(
    "An iterator over worker.batches continues before the loop in which the checkpoint was written, so that its items would come in "
    "another order than in the run that wrote it: make the iterator where that loop is, or look at a first batch with next(iter(batches)).",
    "continues an iterator over worker.batches before it has come to the loop in which the others are",
)


def ended_early(over_numbers: bool, taken: int) -> OtherWay:
    """A training function has ended before it came to a loop, of which `taken` items were handed out."""
    what = _kind(over_numbers)
    return OtherWay(
        f"The training function ended before it came to where the checkpoint was written: the run that wrote it had started {what} there, "
        f"and {taken} of its items were handed out. Passes that were over before the checkpoint are empty in a resumed run, and what "
        "is computed after them sees the weights of the checkpoint: where that decides how long to train, write "
        "`for epoch in worker.epochs(n):`, which begins with the epoch of the checkpoint.",
        f"has ended before it came to where the others are, in {what} of which {taken} items were handed out",
    )


def too_short(taken: int, count: int) -> OtherWay:
    """A pass of which `taken` batches were taken cannot continue with data that have `count`."""
    return OtherWay(
        f"The checkpoint was written after {taken} batches of a pass through the data that now has {count}: resume it with the data "
        "and the batch size of the run that wrote it.",
        f"has data of {count} batches for a pass of which the others have taken {taken}",
    )


def other_loop(over_numbers: bool, before: bool) -> OtherWay:
    """A loop over numbers or a pass begins where it was another one `before`."""
    here, there = _kind(over_numbers), _kind(before)
    return OtherWay(
        f"The training function begins {here} where that of the run that wrote the checkpoint began {there}: resume it with the training "
        "function that wrote it.",
        f"begins {here} where the others began {there}",
    )


def other_data(known: str, now: str) -> OtherWay:
    """A pass is over the data `now` where it was over the data `known`."""
    remedy = "Give the data and the batch size of that run, or resume with override=['data'] (--override data), which takes these."
    return OtherWay(
        f"In the run that wrote the checkpoint this pass was over {known}, and now it is over {now}. {remedy}",
        f"begins a pass over {now} where the others began one over {known}",
    )


def attached_more(attached: int, known: int) -> OtherWay:
    """A further model is attached than the `known` ones."""
    return OtherWay(
        f"worker.attach was called {attached} times, but {known} times in the run that wrote the checkpoint: resume it with the "
        "training function that wrote it.",
        f"has called worker.attach {attached} times, and the others {known} times",
    )


def other_name(method: str, name: str, known: str) -> OtherWay:
    """The method `table` or `keep` was given a name that is not among the `known` ones."""
    return OtherWay(
        f"worker.{method} was given {name!r}, which is not in the checkpoint: it has {known}. Resume it with the training function that "
        "wrote it.",
        f"has called worker.{method} with {name!r}, and the others with {known}",
    )


def other_variable(name: str, there: str, here: str, text: str) -> OtherWay:
    """The variable `name`, as "function:variable", is `here` what it was not `there`; `text` says so of a checkpoint."""
    function, _, variable = name.rpartition(":")
    plain = variable.rpartition(".")[2]
    return OtherWay(
        text,
        f"has {here} in the variable {variable} of {function} where the others have {'another' if here == there else there}; keep it, "
        f"own = worker.variables({plain}=...), and write own.{plain} for it",
    )


def _kind(over_numbers: bool) -> str:
    return "a loop over worker.epochs or worker.range" if over_numbers else "a pass through data"


def refusal(newcomer: str, found: OtherWay) -> CompositionError | WorkloadError:
    """The error in a resumed run, or at the worker `newcomer` that has joined others."""
    if not newcomer:
        return CheckpointError(found.text)
    return WorkloadError(
        f"{newcomer} {found.fact}. A worker that joins a run calls the training function from its beginning, without what the others have "
        "done: write `for epoch in worker.epochs(n):`, which begins with the epoch of the others, and give worker.keep(...) what the "
        "way depends on. It must be the same function, with the same data and batch size."
    )
