"""Kinds of values along a mesh axis (replicated, varying, partial), and types of numbers: what is claimed of them, and what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch

from polyrhythm.torch_programs.checking.evidence import LayoutEvidence
from polyrhythm.torch_programs.checking.findings import SilentError
from polyrhythm.torch_programs.checking.seen import Moved, ReplicaClaim, Sight


def claims(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """DTensors that are not what they say."""
    said: dict[tuple[str, int], dict[int, ReplicaClaim]] = {}
    for rank, seen in sorted(evidence.layout.ranks.items()):
        times: Counter[str] = Counter()
        for claim in seen.claims:
            said.setdefault((claim.what, times[claim.what]), {})[rank] = claim
            times[claim.what] += 1
    for (what, _), by_rank in said.items():
        for rank, claim in by_rank.items():
            other = next((each for each in claim.others if each in by_rank and by_rank[each].digest != claim.digest), None)
            if other is not None or not claim.fits:
                how = f"differs between ranks {rank} and {other}" if other is not None else f"has another shape on rank {rank}"
                cause = "dtensor-convolution" if claim.convolution else "not-replicated"
                yield SilentError(cause, f"{what} says that ranks hold copies, and {how}", claim.where)
                return


def partials(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Partial sums that are read as values."""
    for rank, seen in sorted(evidence.layout.ranks.items()):
        for where in seen.partials[:1]:
            yield SilentError("partial-read", f"to_local() of a partial sum on rank {rank}", where)
            return


def types(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Gradients that are reduced in a coarser type than FSDP2 was asked for."""
    for seen in evidence.layout.ranks.values():
        for moved in seen.moved:
            if moved.sharding and moved.how and moved.dtype is not None and _coarser(moved.dtype, seen.requested):
                names = [name for name, held in seen.parameters.items() if held.value.shape in moved.shapes or held.shape in moved.shapes]
                asked = max(seen.requested, key=lambda each: torch.finfo(each).eps)
                what = (
                    f"gradients of the shape of {', '.join(names[:3]) or moved.shapes} are reduced over ranks {list(moved.ranks)} in "
                    f"{_short(moved.dtype)}, and reduce_dtype is {_short(asked)}"
                )
                yield SilentError("reduce-dtype", what, moved.where)
                return


def _coarser(dtype: torch.dtype, requested: set[torch.dtype]) -> bool:
    return bool(requested) and dtype.is_floating_point and all(torch.finfo(dtype).eps > torch.finfo(each).eps for each in requested)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def moved_kinds(sight: Sight) -> list[dict[str, object]]:
    """Of each line that issues collectives: over how many ranks, in which type, how often, and the kinds before and after."""
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    for moved, all_of_it in _first_of_groups(sight):
        before, after = (_kind({getattr(each, side) for each in all_of_it}) for side in ("given", "got"))
        before = "partial" if moved.how.startswith(("SUM", "AVG", "PREMUL")) and before == "varying" else before
        key = (moved.kind, moved.axis, moved.where, moved.dtype, len(moved.ranks), before, after)
        row = rows.setdefault(
            key,
            {
                "collective": moved.kind,
                "line": moved.where,
                "axis": moved.axis,
                "ranks": len(moved.ranks),
                "dtype": _short(moved.dtype) if moved.dtype else "",
                "before": before,
                "after": after,
                "calls": 0,
            },
        )
        row["calls"] = int(str(row["calls"])) + 1
    return list(rows.values())


def _first_of_groups(sight: Sight) -> Iterator[tuple[Moved, list[Moved]]]:
    """Each collective, as its first rank issued it, with all ranks' own."""
    by_group: dict[tuple[int, ...], dict[int, list[Moved]]] = {}
    for rank, seen in sorted(sight.ranks.items()):
        for moved in seen.moved:
            by_group.setdefault(moved.ranks, {}).setdefault(rank, []).append(moved)
    for lists in by_group.values():
        for together in zip(*lists.values(), strict=False):
            yield together[0], list(together)


def _kind(digests: set[int]) -> str:
    return "replicated" if len(digests) == 1 else "varying"
