"""Blocks distributed to workers so that all have about equal work."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError


def balanced(blocks: Tensor, costs: Tensor, workers: int) -> list[Tensor]:
    """The `blocks` (n,) of each worker, where `costs` (n,) is what each takes: the dearest first, to the worker with least so far.

    So the busiest worker has at most 4/3 of the optimum (Graham, 1969). Raises CompositionError for costs that do not fit.

    Examples:
        >>> [share.tolist() for share in balanced(torch.arange(4), torch.tensor([3.0, 1.0, 1.0, 1.0]), 2)]
        [[0], [1, 2, 3]]
    """
    if len(costs) != len(blocks) or workers < 1:
        raise CompositionError(f"{len(costs)} costs were given for {len(blocks)} blocks and {workers} workers: give a cost for each block.")
    shares: list[list[int]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    for place in costs.sort(descending=True, stable=True).indices.tolist():
        least = min(range(workers), key=loads.__getitem__)
        shares[least].append(int(blocks[place]))
        loads[least] += float(costs[place])
    return [torch.tensor(sorted(share), dtype=torch.int64) for share in shares]
