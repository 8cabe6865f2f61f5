"""Parameters and gradients that several ranks hold are equal, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from polyrhythm.torch_programs.checking.accumulation import own_only
from polyrhythm.torch_programs.checking.evidence import LayoutEvidence, line, place_of_step, relative
from polyrhythm.torch_programs.checking.findings import SilentError
from polyrhythm.torch_programs.checking.seen import HeldParameter, StepSeen, digest


@dataclass(frozen=True, slots=True)
class _Split:
    """Two ranks whose copies of a parameter differ, `far` from each other."""

    first: tuple[int, str]
    second: tuple[int, str]
    far: float


def equal(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """The gradients of each step, else the values after it; and the values at the beginning."""
    yield from _beginnings(evidence)
    for step in range(evidence.layout.steps):
        seen = evidence.layout.at(step)
        for what in ("gradients", "values"):
            splits = [split for group in evidence.places.copies() for split in _splits(evidence, seen, group, what)]
            if splits:
                yield _finding(evidence, seen, step, splits, what)
                return


def _held(evidence: LayoutEvidence, member: tuple[int, str]) -> HeldParameter:
    return evidence.layout.ranks[member[0]].parameters[member[1]]


def _of(seen: dict[int, StepSeen], member: tuple[int, str], what: str) -> Tensor | None:
    rank, name = member
    if rank not in seen:
        return None
    step = seen[rank]
    return (step.gradients if what == "gradients" else step.values).get(name)


def _splits(evidence: LayoutEvidence, seen: dict[int, StepSeen], group: list[tuple[int, str]], what: str) -> Iterator[_Split]:
    """The first pair of a group of copies that differs, of those that began with the same bits."""
    known = [(member, value) for member in group if (value := _of(seen, member, what)) is not None]
    for place, (first, mine) in enumerate(known):
        for second, theirs in known[place + 1 :]:
            if digest(_held(evidence, first).value) == digest(_held(evidence, second).value) and digest(mine) != digest(theirs):
                yield _Split(first, second, relative(line(mine) - line(theirs), line(mine)))
                return


def _finding(evidence: LayoutEvidence, seen: dict[int, StepSeen], step: int, splits: list[_Split], what: str) -> SilentError:
    worst = max(splits, key=lambda split: split.far)
    (first, name), (second, other) = worst.first, worst.second
    cause = _cause(evidence, seen, splits, worst)
    shown = f"{name} on rank {first} and {other} on rank {second}" if name != other else f"{name} on ranks {first} and {second}"
    more = f" (and {len(splits) - 1} other parameters)" if len(splits) > 1 else ""
    return SilentError(cause, f"{what} of {shown} differ by {worst.far:.2g} of their norm{more}", place_of_step(seen, (first,)), step)


def _cause(evidence: LayoutEvidence, seen: dict[int, StepSeen], splits: list[_Split], worst: _Split) -> str:
    if any(not _held(evidence, split.first).trained for split in splits):
        return "unfrozen"
    if any(split.first[1] != split.second[1] for split in splits):
        return "tied-on-stages"
    whole = sum(1 for _ in evidence.layout.ranks[worst.first[0]].parameters)
    if all("Norm" in _held(evidence, split.first).kind for split in splits) and len(splits) < whole:
        return "norms-in-sequence-parallel"
    return "not-reduced" if own_only(seen, *worst.first) and own_only(seen, *worst.second) else "replicas-differ"


def _beginnings(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Ranks with the same gradients, which are replicas, and with different values before the first step."""
    if not evidence.layout.steps:
        return
    seen = evidence.layout.at(0)
    for group in evidence.places.copies():
        first, *others = group
        mine = _of(seen, first, "gradients")
        for other in others:
            theirs = _of(seen, other, "gradients")
            apart = digest(_held(evidence, first).value) != digest(_held(evidence, other).value)
            if apart and mine is not None and theirs is not None and bool(mine.any()) and digest(mine) == digest(theirs):
                what = f"{first[1]} has other values on rank {other[0]} than on rank {first[0]}, and the same gradients"
                yield SilentError("initialisation", what, place_of_step(seen, (first[0],)))
                return
