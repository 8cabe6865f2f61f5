"""Which candidates belong to linear layers, and how large these are."""

from __future__ import annotations

from polyrhythm.core.protocols.selection import ParameterInfo


def linear_shape(candidate: ParameterInfo) -> tuple[int, int] | None:
    """Outputs and inputs of the nn.Linear, with a weight that is trained, to which it belongs; None where it belongs to none.

    Subclasses of nn.Linear may use their weight otherwise.
    """
    weight = dict(candidate.module.named_parameters(recurse=False)).get("weight")
    if type(candidate.module).__name__ != "Linear" or weight is None or not weight.requires_grad:
        return None
    outs, ins = weight.shape
    return outs, ins
