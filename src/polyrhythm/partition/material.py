"""Weights that get their memory when it is known what of them a rank has."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polyrhythm.errors import WorkloadError
from polyrhythm.partition.deferred import Recording
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.placement import origin_of, placed, placement_of


def materialise(model: nn.Module, recording: Recording, seed: int, device: str = "cpu") -> None:
    """Give the parameters and buffers of `model` without memory their initial values, each its piece of the whole.

    Parameters stay the same objects. Raises WorkloadError for a buffer that is not the model's own.
    """
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            whole, known, placement = *origin_of(parameter, name), placement_of(parameter)
            value = recording.initial(whole, known, seed, placement.piece).view(parameter.shape).to(device)
            torch.utils.swap_tensors(parameter, nn.Parameter(value, parameter.requires_grad))  # type: ignore[no-untyped-call]
            placed(parameter, placement)
    for path, module in model.named_modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.is_meta:
                setattr(module, name, _buffer(recording, buffer, f"{path}.{name}".lstrip("."), seed).to(device))


def _buffer(recording: Recording, buffer: Tensor, name: str, seed: int) -> Tensor:
    if not recording.knows(buffer):
        raise WorkloadError(f"The buffer {name} is a part of one without memory: build the model itself, not by worker.build.")
    return recording.initial(buffer, name, seed, Piece.all_of(buffer.shape))
