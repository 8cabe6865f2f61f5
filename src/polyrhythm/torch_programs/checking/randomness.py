"""Random streams: dropout as one device would draw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import torch

from polyrhythm.torch_programs.checking.evidence import LayoutEvidence
from polyrhythm.torch_programs.checking.findings import SilentError
from polyrhythm.torch_programs.checking.seen import DropoutCall

_FEW = 16
"""Fewer elements may be dropped alike by chance."""


def dropout(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Masks must be equal on ranks whose activations are, and different on others."""
    found: set[str] = set()
    for step in range(evidence.layout.steps):
        drawn: dict[tuple[str, int], dict[int, DropoutCall]] = {}
        for rank, seen in evidence.layout.at(step).items():
            times: Counter[str] = Counter()
            for drop in seen.drops:
                drawn.setdefault((drop.module, times[drop.module]), {})[rank] = drop
                times[drop.module] += 1
        for (module, _), by_rank in drawn.items():
            for (first, mine), (second, theirs) in combinations(by_rank.items(), 2):
                cause = _cause(mine, theirs)
                if cause and cause not in found:
                    found.add(cause)
                    given, masks = ("different", "the same") if cause == "equal-dropout" else ("the same", "different")
                    what = f"{module or 'dropout'} gets {given} activations on ranks {first} and {second}, and drops {masks} elements"
                    yield SilentError(cause, what, mine.where, step)


def _cause(mine: DropoutCall, theirs: DropoutCall) -> str:
    if mine.there.shape != theirs.there.shape:
        return ""
    both = mine.there & theirs.there
    alike = torch.equal(mine.dropped[both], theirs.dropped[both])
    if mine.given == theirs.given:
        return "" if alike else "different-dropout"
    return "equal-dropout" if alike and int(both.sum()) >= _FEW and bool(mine.dropped[both].any()) else ""
