"""What DTensors say of their values: claims, which are compared between ranks afterwards."""

from __future__ import annotations

from itertools import product

from torch import Tensor
from torch.distributed.tensor import DTensor

from polyrhythm.process_group.messages.calls import line_of_caller
from polyrhythm.torch_programs.checking.seen import ReplicaClaim, digest, index_of


def claim_of(tensor: Tensor, what: str, convolution: bool = False) -> ReplicaClaim | None:
    """The claim of a DTensor of which ranks hold copies; None for others."""
    if not isinstance(tensor, DTensor) or not any(each.is_replicate() for each in tensor.placements):
        return None
    index = index_of(tensor)
    fits = index is None or index.shape == tensor.to_local().shape
    return ReplicaClaim(what, convolution, _ranks_with_copies(tensor), digest(tensor), fits, line_of_caller())


def _ranks_with_copies(tensor: DTensor) -> tuple[int, ...]:
    mesh, here = tensor.device_mesh, tensor.device_mesh.get_coordinate()
    if here is None:
        return ()
    along = [range(mesh.size(axis)) if each.is_replicate() else [here[axis]] for axis, each in enumerate(tensor.placements)]
    return tuple(int(mesh.mesh[place]) for place in product(*along))
