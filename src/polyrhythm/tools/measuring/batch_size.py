"""The largest batch with which nothing is lost, found by trying."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from polyrhythm.core import rng
from polyrhythm.errors import WorkloadError

Loss = Callable[..., Tensor]
"""The mean loss of a batch: `loss(model, *tensors)`."""
Make = Callable[[Iterable[nn.Parameter]], Optimizer]


def largest_batch(model: nn.Module, make: Make, loss: Loss, samples: Sequence[Tensor], sizes: Sequence[int], tolerance: float = 0.0) -> int:
    """The largest of `sizes` with which an epoch of `samples`, a small share of the data, loses nothing compared with the smallest.

    1-bit SGD's choice of batch sizes (Seide et al., 2014, section 3): the larger the batch, the less there is to exchange. For each size
    a copy of `model` as it is takes the samples (tensors of one length) in order, with an optimizer `make(parameters)` whose learning
    rates are multiplied by size / smallest, so that a sample counts the same. A size is good if the mean loss over all samples is
    afterwards at most 1 + `tolerance` times that of the smallest. Neither the model nor a random stream is changed, and workers that
    have the same model and samples find the same. Raises WorkloadError for sizes that are none, and where the smallest diverges.
    """
    count = len(samples[0]) if samples else 0
    if not count or any(len(each) != count for each in samples):
        raise WorkloadError(f"largest_batch was given {len(samples)} tensors of samples: give tensors of one length, such as (x, y).")
    tried = sorted(set(sizes))
    if not tried or tried[0] < 1 or tried[-1] > count:
        raise WorkloadError(f"largest_batch was given sizes={list(sizes)} for {count} samples: give sizes from 1 to {count}.")
    losses = [_loss_after(copy.deepcopy(model), make, loss, samples, size, size / tried[0]) for size in tried]
    if not math.isfinite(losses[0]):
        raise WorkloadError(f"largest_batch found a loss of {losses[0]} with batches of {tried[0]}: lower the learning rate.")
    return max(size for size, each in zip(tried, losses, strict=True) if each <= losses[0] * (1 + tolerance))


def _loss_after(model: nn.Module, make: Make, loss: Loss, samples: Sequence[Tensor], size: int, scale: float) -> float:
    """The mean loss over all samples after one epoch over them; infinite where it is no number."""
    optimizer = make(model.parameters())
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * scale
    batches = list(zip(*(torch.split(each, size) for each in samples), strict=True))
    with rng.unmoved():
        for batch in batches:
            optimizer.zero_grad()
            loss(model, *batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            total = math.fsum(loss(model, *batch).item() * len(batch[0]) for batch in batches)
    mean = total / len(samples[0])
    return mean if math.isfinite(mean) else math.inf
