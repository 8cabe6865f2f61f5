"""Responses in which a zero takes a bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.served_weights import ServedWeights, WeightLog
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.servers.served_weights import AllWeights

_WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_AS_IT_IS = -1


@dataclass(frozen=True, slots=True)
@checked
class ZerosInBits:
    """The packets of `responses`, with a bit for each element of a tensor that says whether it is zero, and the values of the others.

    Where a penalty holds weights at zero, servers then send little but bits (Li et al., OSDI 2014, section 5.1, compress zeros by a general
    method). A tensor that would not become smaller is sent as it is. Nothing is lost, not a bit: -0.0 is a value.
    """

    responses: ServedWeights = field(default_factory=AllWeights)

    def log(self, weights: Tensor, layout: Layout) -> WeightLog:
        return _BitsLog(self.responses.log(weights, layout))

    def receivers(self, workers: Sequence[str]) -> Sequence[str]:
        return self.responses.receivers(workers)

    def unpacked(self, packet: Packet, held: Tensor, layout: Layout) -> Tensor:
        return self.responses.unpacked(expanded(packet), held, layout)


class _BitsLog:
    def __init__(self, log: WeightLog) -> None:
        self.log = log

    def changed(self, weights: Tensor, version: int) -> None:
        self.log.changed(weights, version)

    def packet(self, weights: Tensor, known: int) -> Packet:
        return compressed(self.log.packet(weights, known))

    def export(self) -> StateTree:
        return self.log.export()

    def restore(self, state: StateTree) -> None:
        self.log.restore(state)


def compressed(packet: Packet) -> Packet:
    """For each tensor (n,) of `packet` how many elements it has, if it follows as bits and values, or -1; then those tensors."""
    sizes, tensors = [], []
    for tensor in packet:
        there = tensor.view(_WORDS[tensor.element_size()]) != 0 if tensor.is_floating_point() else None
        values = tensor if there is None else tensor[there]
        if there is None or -(-tensor.numel() // 8) + values.nbytes >= tensor.nbytes:
            sizes.append(_AS_IT_IS)
            tensors.append(tensor)
        else:
            sizes.append(tensor.numel())
            tensors += [torch.from_numpy(np.packbits(there.numpy())), values]
    return (torch.tensor(sizes, dtype=torch.int64), *tensors) if sizes else ()


def expanded(packet: Packet) -> Packet:
    """The packet that `compressed` was given."""
    if not packet:
        return ()
    sizes, *rest = packet
    tensors, following = [], iter(rest)
    for size in sizes.tolist():
        tensor = next(following)
        if size != _AS_IT_IS:
            there = torch.from_numpy(np.unpackbits(tensor.numpy(), count=size).astype(bool))
            values = next(following)
            tensor = values.new_zeros(size)
            tensor[there] = values
        tensors.append(tensor)
    return tuple(tensors)
