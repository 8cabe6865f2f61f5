"""STREAM: the bandwidth at which tensors are added to those of another rank."""

from __future__ import annotations

import time

import torch

from polyrhythm.partition.axis import Axis


def streamed_bandwidth(axis: Axis, numel: int, times: int) -> float:
    """Bytes a second at which this rank gets `times` tensors of the rank before, and adds them to its own, in the time of the runtime."""
    total, value = torch.zeros(numel), torch.ones(numel)
    began = time.perf_counter()
    for _ in range(times):
        total += axis.shift(value, 1, (numel,))
    seconds = time.perf_counter() - began
    assert bool((total == times).all())
    return times * numel * value.element_size() / seconds
