"""Collectives that return what they write, for laws of all kinds of collectives."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def all_gather(own: Tensor) -> Tensor:
    whole = torch.empty(dist.get_world_size() * own.numel())
    dist.all_gather_into_tensor(whole, own)
    return whole


def reduce_scatter(own: Tensor) -> Tensor:
    part = torch.empty(own.numel() // dist.get_world_size())
    dist.reduce_scatter_tensor(part, own)
    return part
