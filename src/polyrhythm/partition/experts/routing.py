"""Which expert each token goes to, and which tokens an expert has no room for, as one process that sees all tokens decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from polyrhythm.partition.axis import Axis, near_equal


@dataclass(frozen=True, slots=True)
class Routing:
    """A route is one choice of one token. `routes` are this rank's that are kept, by expert, as places in (choices, tokens).

    `kept[rank][expert]` says how many there are, for each rank of the expert axis; `fractions` (experts) is the share of all tokens whose
    first choice each expert is, and `tokens` the number of those of the expert axis.
    """

    routes: Tensor
    kept: list[list[int]]
    fractions: Tensor
    tokens: int


def routed(chosen: Tensor, experts: int, capacity_factor: float | None, axis: Axis, over: Sequence[Axis]) -> Routing:
    """The routes of this rank's choices (tokens, choices).

    An expert has room for `capacity_factor` times its equal share of all routes, on this axis and on the axes `over`. First choices go
    before second ones, and earlier tokens before later ones; tokens are in the order of the axes `over`, then of this one.
    """
    if chosen.is_meta:
        return _balanced(chosen, experts, capacity_factor, axis)
    hits = F.one_hot(chosen.T, experts)
    every, place = hits.sum(1).unsqueeze(0), 0
    for each in (axis, *reversed(over)):
        place += each.index * len(every)
        every = each.all_gather(every, 0, [len(every)] * each.size)
    tokens = int(every[:, 0].sum())
    room = _room(tokens * chosen.shape[1], experts, capacity_factor)
    order = every.transpose(0, 1).flatten(0, 1)  # (choices x ranks, experts)
    first = (order.cumsum(0) - order).view(chosen.shape[1], len(every), experts)
    kept = torch.minimum((room - first).clamp(min=0), every.transpose(0, 1)).sum(0)
    places = (hits.cumsum(1) + first[:, place].unsqueeze(1) - 1).gather(2, chosen.T.unsqueeze(2)).flatten()
    expert = chosen.T.flatten()
    by_expert = expert.argsort(stable=True)
    start = place - axis.index
    return Routing(
        by_expert[places[by_expert] < room],
        kept[start : start + axis.size].tolist(),
        every[:, 0].sum(0) / max(tokens, 1),
        int(every[start : start + axis.size, 0].sum()),
    )


def _room(routes: int, experts: int, capacity_factor: float | None) -> int:
    return routes if capacity_factor is None else math.ceil(capacity_factor * routes / experts)


def _balanced(chosen: Tensor, experts: int, capacity_factor: float | None, axis: Axis) -> Routing:
    """Without values: each expert gets the same from each rank, as a gate that has learned to be fair gives them."""
    tokens, choices = chosen.shape
    routes = min(tokens * choices, experts * _room(tokens * choices, experts, capacity_factor))
    return Routing(
        torch.zeros(routes, dtype=torch.long, device="meta"),
        [list(near_equal(routes, experts))] * axis.size,
        torch.zeros(experts, device="meta"),
        tokens * axis.size,
    )
