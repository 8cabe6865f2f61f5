"""Groups of calls: the first of a kind is compared with single calls, and taken apart where it is not equal within rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from polyrhythm.core.simulator.gradients.calls import CallGroup, Outputs
from polyrhythm.core.simulator.gradients.executors import Executor, InThisThread
from polyrhythm.core.simulator.gradients.stacked import backward, forward

_RELATIVE, _ABSOLUTE = 1e-3, 1e-4
"""Differences by rounding are below these parts of a value, or of the largest one."""
_HERE = InThisThread()


def outputs_of(group: CallGroup, executor: Executor, fail: Callable[..., None]) -> list[CallGroup]:
    """The groups whose outputs are used: `group`, or one of each of its calls. A single call that raises has its program `fail`."""
    assert group.outputs is not None, "it was submitted"
    try:
        found = group.outputs.result()
    except Exception as problem:
        if len(group.calls) == 1:
            fail(group.calls[0], error=problem)
            return []
        return _apart(group, f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}", executor, fail)
    if not group.kind.checked and found.stacked:
        group.single = [forward([call]) for call in group.calls]
        if not all(_equal(found.of(place), one.leaves) for place, one in enumerate(group.single)):
            return _apart(group, "stacked it gives other outputs", executor, fail)
    return [group]


def _apart(group: CallGroup, reason: str, executor: Executor, fail: Callable[..., None]) -> list[CallGroup]:
    group.kind.most, group.kind.apart = 1, reason
    singles = [CallGroup(group.kind, [call]) for call in group.calls]
    for single in singles:
        single.calls[0].group = single
        single.outputs = executor.submit(forward, single.calls)
    return [each for single in singles for each in outputs_of(single, executor, fail)]


def finish(group: CallGroup, executor: Executor) -> None:
    """Begin the backward pass of `group`, where one of its programs has made one."""
    assert group.outputs is not None, "its outputs were used"
    if all(call.gradients is None for call in group.calls):
        return
    outputs = group.outputs.result()
    if group.single:
        group.gradients = _HERE.submit(_compared, group, outputs)
    else:
        group.gradients = executor.submit(backward, outputs, group.calls)


def _compared(group: CallGroup, outputs: Outputs) -> Sequence[Sequence[Tensor | None]]:
    """The gradients, those of single calls where these are not equal to the stacked ones."""
    stacked = backward(outputs, group.calls)
    single = [backward(one, [call])[0] for one, call in zip(group.single, group.calls, strict=True)]
    group.kind.checked = True
    if all(_equal(*pair) for pair in zip(stacked, single, strict=True)):
        return stacked
    group.kind.most, group.kind.apart = 1, "stacked it gives other gradients"
    return single


def _equal(some: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> bool:
    """True if all are equal within rounding."""
    return all(_close(a, b) for a, b in zip(some, others, strict=True))


def _close(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    if not a.is_floating_point() or not a.numel():
        return torch.equal(a, b)
    largest = b.detach().abs().max().item()
    return torch.allclose(a, b, rtol=_RELATIVE, atol=_ABSOLUTE * largest, equal_nan=True)
