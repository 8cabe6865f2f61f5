"""Gradients and losses beside those of one process."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

import torch
from torch import Tensor

from polyrhythm.torch_programs.checking.batches import uneven
from polyrhythm.torch_programs.checking.evidence import LayoutEvidence, line, place_of_step, proportional, relative
from polyrhythm.torch_programs.checking.findings import SilentError
from polyrhythm.torch_programs.checking.seen import Sight, StepSeen

_NEAR = 1e-3


def wholes(evidence: LayoutEvidence, sight: Sight, step: int) -> dict[str, Tensor]:
    """The gradients of whole parameters that the ranks of a layout have in a step, by the twin's names."""
    return evidence.places.whole({rank: seen.gradients for rank, seen in sight.at(step).items()})


def of_twin(evidence: LayoutEvidence, twin: Sight, step: int) -> dict[str, Tensor]:
    """Those of the twin."""
    seen = twin.at(step)
    gradients = next(iter(seen.values())).gradients if seen else {}
    return {name: line(each) for name, each in gradients.items()}


def norm(gradients: dict[str, Tensor]) -> float:
    """That of all elements."""
    return float(torch.cat(list(gradients.values())).nan_to_num().norm()) if gradients else 0.0


def beside(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """The first step whose gradients rounding does not explain."""
    if evidence.pair is None or any(evidence.places.strange.values()):
        return
    layout, twin = evidence.pair
    for step in range(min(layout.steps, twin.steps)):
        ours, theirs = wholes(evidence, layout, step), of_twin(evidence, twin, step)
        far = {key: relative(each - theirs[key], theirs[key], evidence.least(theirs)) for key, each in ours.items() if key in theirs}
        beyond = {key: value for key, value in far.items() if value > evidence.tolerance(step, key)}
        if beyond:
            worst = max(beyond, key=lambda key: beyond[key])
            cause, detail = _cause(evidence, step)
            what = (
                f"the gradient of {worst} differs from that of one process by {beyond[worst]:.2g} of its norm, where rounding explains "
                f"{evidence.tolerance(step, worst):.1g}{detail} ({len(beyond)} of {len(far)} parameters differ)"
            )
            yield SilentError(cause, what, place_of_step(layout.at(step)), step)
            return


def _cause(evidence: LayoutEvidence, step: int) -> tuple[str, str]:
    assert evidence.pair is not None
    layout, twin = (each.at(step) for each in evidence.pair)
    theirs = of_twin(evidence, evidence.pair[1], step)
    factors = _factors(evidence, layout, theirs)
    near = max(_NEAR, evidence.floor)
    if factors and all(rest < near for _, rest in factors.values()):
        return _scaled({rank: factor for rank, (factor, _) in factors.items()}, evidence, layout, step)
    if (auxiliary := _auxiliary(layout, next(iter(twin.values())))) is not None:
        return "auxiliary-loss", f"; what is added to the main loss has {auxiliary:.3g} times the weight"
    if counts := uneven(layout):
        return "uneven-parts", f"; ranks have {', '.join(map(str, counts.values()))} samples"
    if hooks := sorted(set().union(*(seen.hooks for seen in evidence.layout.ranks.values()))):
        return "communication-hook", f"; DistributedDataParallel exchanges them by {', '.join(hooks)}"
    return "differs", ""


def _factors(evidence: LayoutEvidence, layout: dict[int, StepSeen], theirs: dict[str, Tensor]) -> dict[int, tuple[float, float]]:
    """Of each rank the factor between its gradients and the twin's, and what no factor explains."""
    found = {}
    for rank, seen in layout.items():
        mine, other = [], []
        for name, gradient in seen.gradients.items():
            place = evidence.places.of[rank].get(name)
            if place is not None and place.key in theirs:
                whole = theirs[place.key]
                mine.append(line(gradient))
                other.append(whole if place.index is None else whole[place.index.flatten()])
        if mine and bool(torch.cat(other).any()):
            found[rank] = proportional(torch.cat(mine), torch.cat(other))
    return found


def _scaled(factors: dict[int, float], evidence: LayoutEvidence, layout: dict[int, StepSeen], step: int) -> tuple[str, str]:
    """The cause where each rank's gradients are a multiple of the twin's."""
    mean = fmean(factors.values())
    norms = {rank: float(torch.cat([line(each) for each in layout[rank].gradients.values()]).norm()) for rank in factors}
    shown = f"; they are {', '.join(f'{each:.4g}' for each in dict.fromkeys(round(each, 4) for each in factors.values()))} times those"
    if max(factors.values()) - min(factors.values()) > _NEAR * abs(mean):
        alike = max(norms.values()) - min(norms.values()) <= _NEAR * max(norms.values())
        return ("local-norm" if alike else "differs"), shown
    assert evidence.pair is not None
    true = norm(wholes(evidence, evidence.pair[0], step))
    groups = {tuple(sorted(norms))} | {moved.ranks for seen in evidence.layout.ranks.values() for moved in seen.moved if moved.how}
    counted = [sum(norms.get(rank, 0.0) ** 2 for rank in group) ** 0.5 for group in groups]
    twin = next(iter(evidence.pair[1].at(step).values()))
    by_hand = any(
        abs(proportional(line(twin.gradients[name]), line(each.total))[0] - 1) > _NEAR
        for name, each in twin.contributions.items()
        if name in twin.gradients
    )
    if by_hand and any(each > true * (1 + _NEAR) and abs(mean * each / true - 1) < _NEAR for each in counted):
        return "norm-counts-twice", shown
    whole = max(mean, 1 / mean) if mean > 0 else 0.0
    integer = round(whole) >= 2 and abs(whole - round(whole)) < max(_NEAR, evidence.floor) * whole
    return ("mean-over-wrong-ranks" if integer else "differs"), shown


def _auxiliary(layout: dict[int, StepSeen], twin: StepSeen) -> float | None:
    """The weight of what is added to the main loss, beside the twin's; None where nothing is, or the main losses differ."""
    ranks = [seen for seen in layout.values() if seen.losses and len(seen.losses) == len(seen.backwards)]
    if not ranks or not twin.losses or len(twin.losses) != len(twin.backwards):
        return None
    main, all_of_it = fmean(fmean(seen.losses) for seen in ranks), fmean(fmean(seen.backwards) for seen in ranks)
    added, theirs = all_of_it - main, fmean(twin.backwards) - fmean(twin.losses)
    if abs(main - fmean(twin.losses)) > _NEAR * abs(main) or abs(theirs) < _NEAR * abs(main) or abs(added - theirs) < _NEAR * abs(theirs):
        return None
    return added / theirs
