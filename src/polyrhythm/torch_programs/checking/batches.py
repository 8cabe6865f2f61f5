"""One batch for each replica, all data seen once, and each output with its own label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import torch
from torch import Tensor

from polyrhythm.torch_programs.checking.evidence import LayoutEvidence, place_of_step
from polyrhythm.torch_programs.checking.findings import SilentError
from polyrhythm.torch_programs.checking.seen import RankSeen, Sight, StepSeen, digest


def rows_of(tensors: list[Tensor]) -> list[int]:
    """Digests of the samples, in their order."""
    return [digest(row) for tensor in tensors if tensor.dim() for row in tensor]


def elements(sight: Sight, step: int) -> Tensor:
    """The elements of the different inputs of all ranks, sorted: equal for the same samples, however they are cut."""
    parts = {tuple(map(digest, seen.inputs)): seen.inputs for seen in sight.at(step).values()}
    found = [each.flatten().double() for inputs in parts.values() for each in {digest(one): one for one in inputs}.values()]
    return torch.cat(found).sort().values if found else torch.empty(0, dtype=torch.float64)


def skipped(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Ranks whose samples are those of another step of the twin, while others are where it is; or of other steps, where it takes several
    for the samples of all ranks. Ranks that draw their own samples are nowhere in the twin, but for one that draws the twin's stream."""
    if evidence.twin is None:
        return
    steps = [set(rows_of(each.inputs)) for each in next(iter(evidence.twin.ranks.values())).steps]
    everything, first = set().union(*steps), evidence.layout.at(0)
    together = len(set().union(*(rows_of(each.inputs) for each in first.values())))
    times = max(1, together // max(1, len(steps[0]))) if steps else 1
    twin = [set().union(*steps[place : place + times]) for place in range(0, len(steps) - times + 1, times)]
    for step in range(min(evidence.layout.steps, len(twin))):
        seen = evidence.layout.at(step)
        rows = {rank: set(rows_of(each.inputs)) for rank, each in seen.items()}
        astray = {rank: own - twin[step] for rank, own in rows.items() if own and not own <= twin[step] and own <= everything}
        if astray and any(own and own <= twin[step] for own in rows.values()):
            rank, others = next(iter(astray.items()))
            there = next((each for each, known in enumerate(twin) if others & known), step)
            what = f"rank {rank} trains on {len(others)} samples that one process has in step {there * times + 1}"
            yield SilentError("skipped-data", what, place_of_step(seen, (rank,)), step)
            return


def same_data(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Ranks that reduce gradients of the same samples."""
    if not evidence.layout.steps:
        return
    seen = evidence.layout.at(0)
    for first, second in combinations(seen, 2):
        rows = rows_of(seen[first].inputs)
        if rows and rows == rows_of(seen[second].inputs) and _replicas(evidence.layout.ranks[first], seen, first, second):
            what = f"ranks {first} and {second} have the same {len(rows)} samples, and are replicas of one model"
            yield SilentError("same-data", what, place_of_step(seen, (first,)))
            return


def _replicas(held: RankSeen, seen: dict[int, StepSeen], first: int, second: int) -> bool:
    if any(each.data for each in held.parameters.values()):
        return all(second in each.data for each in held.parameters.values() if each.data)
    if any(each.index is not None for each in held.parameters.values()):
        return False
    mine, theirs = seen[first].contributions, seen[second].contributions
    alike = mine.keys() == theirs.keys() and all(digest(mine[name].total) == digest(theirs[name].total) for name in mine)
    return bool(mine) and alike and any({first, second} <= set(moved.ranks) and moved.how for moved in held.moved)


def labels(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Targets of other samples than those that came in, where the twin shows which belong together."""
    if evidence.twin is None:
        return
    known = _pairs(next(iter(evidence.twin.ranks.values())).steps)
    for step in range(evidence.layout.steps):
        seen = evidence.layout.at(step)
        expected = [[known.get(row) for row in rows_of(each.inputs)] for each in seen.values() if each.inputs]
        if not expected or any(None in each for each in expected):
            continue
        for rank, each in seen.items():
            targets = rows_of(each.targets)
            wanted = [[target for targets_of_it in own if targets_of_it for target in targets_of_it] for own in expected]
            sized = [own for own in wanted if len(own) == len(targets)]
            if targets and sized and targets not in sized:
                wrong = min(sum(a != b for a, b in zip(targets, own, strict=True)) for own in sized)
                what = f"{wrong} of {len(targets)} labels at rank {rank} are not those of the samples that came in"
                yield SilentError("labels", what, place_of_step(seen, (rank,)), step)
                return


def _pairs(steps: list[StepSeen]) -> dict[int, tuple[int, ...]]:
    """Of each sample its labels, as digests; a sample with several is left out."""
    found: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for step in steps:
        samples, targets = rows_of(step.inputs), rows_of(step.targets)
        if samples and targets and len(targets) % len(samples) == 0:
            each = len(targets) // len(samples)
            for place, sample in enumerate(samples):
                found[sample].add(tuple(targets[place * each : (place + 1) * each]))
    return {sample: next(iter(given)) for sample, given in found.items() if len(given) == 1}


def uneven(steps: dict[int, StepSeen]) -> dict[int, int]:
    """The number of samples of each rank, where they differ."""
    counts = {rank: len(rows_of(each.inputs)) for rank, each in steps.items() if each.inputs}
    return counts if len(set(counts.values())) > 1 else {}
