"""What reaches the optimizer is the sum of what the backward passes of its step gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from polyrhythm.torch_programs.checking.evidence import LayoutEvidence, line, place_of_step, proportional
from polyrhythm.torch_programs.checking.findings import SilentError
from polyrhythm.torch_programs.checking.seen import GradientSum, StepSeen, digest

_NEAR = 1e-3
_FAR = 1e-2
_FEWEST = 8
"""Elements of a gradient that are looked at: two numbers explain fewer by chance."""


def scaled_twice(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """A pipeline's schedule that divides gradients which it has divided before."""
    for step in range(evidence.layout.steps):
        for rank, seen in evidence.layout.at(step).items():
            times = Counter(stage for stage, _ in seen.scalings)
            if times and max(times.values()) > 1:
                what = f"rank {rank} calls the schedule {max(times.values())} times in a step, and each call divides the gradients of all"
                yield SilentError("scale-grads", what, seen.scalings[-1][1], step)
                return


def stale(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Gradients of the last micro-batch alone, or with those of an earlier step."""
    copies = {member: [rank for rank, _ in group] for group in evidence.places.copies() for member in group}
    for step in range(evidence.layout.steps):
        seen = evidence.layout.at(step)
        for rank, mine in seen.items():
            for name, gradient in mine.gradients.items():
                if name not in mine.contributions or gradient.numel() < _FEWEST or not bool(gradient.any()):
                    continue
                groups = _groups(evidence, rank, copies.get((rank, name), [rank]))
                parts = [[seen[each].contributions.get(name) for each in group if each in seen] for group in groups]
                before = evidence.layout.at(step - 1)[rank].gradients.get(name) if step else None
                several = len({digest(each) for each in mine.inputs}) > 1
                if (how := _explained(gradient, [each for each in parts if None not in each], before, several)) != "":
                    what = f"the gradient of {name} on rank {rank} is {how}"
                    yield SilentError("stale-gradients", what, place_of_step(seen, (rank,)), step)
                    return


def _groups(evidence: LayoutEvidence, rank: int, copies: Sequence[int]) -> list[tuple[int, ...]]:
    """The ranks over which a gradient may have been reduced: it is one of these that explains it."""
    moved = {each.ranks for each in evidence.layout.ranks[rank].moved if each.how and rank in each.ranks}
    return sorted({(rank,), tuple(sorted(copies)), *(tuple(each for each in group if each in copies) for group in moved)})


def _explained(gradient: Tensor, parts: Sequence[Sequence[GradientSum | None]], before: Tensor | None, several: bool) -> str:
    """How a gradient came about, if it is not a multiple of what its step gave; "" if it is, or where nothing explains it. `several`
    micro-batches differ."""
    value = line(gradient)
    sums = [sum(line(each.total) for each in group if each) for group in parts]
    if not sums or any(_far(value, each) < _NEAR for each in sums):
        return ""
    for group in parts if several else ():
        if all(each and each.count > 1 for each in group) and _far(value, sum(line(each.last) for each in group if each)) < _NEAR:
            count = max(each.count for each in group if each)
            return f"that of the last of {count} micro-batches alone"
    if before is not None and bool(before.any()):
        for each in sums:
            basis = torch.stack([torch.as_tensor(each), line(before)], 1)
            solution = torch.linalg.lstsq(basis, value[:, None]).solution
            rest = float((value - (basis @ solution)[:, 0]).norm() / value.norm())
            if rest < _NEAR and float(solution[1]) > _FAR and _far(value, each) > _FAR:
                return f"its own and {float(solution[1]):.2g} times that of the step before"
    return ""


def _far(value: Tensor, to: Tensor | int) -> float:
    return proportional(value, torch.as_tensor(to))[1] if isinstance(to, Tensor) else 1.0


def own_only(steps: dict[int, StepSeen], rank: int, name: str) -> bool:
    """True if a rank's gradient is what its own backward passes gave, and no other's."""
    known, gradient = steps[rank].contributions.get(name), steps[rank].gradients.get(name)
    return known is not None and gradient is not None and _far(line(gradient), line(known.total)) < _NEAR
