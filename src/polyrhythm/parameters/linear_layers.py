"""Recognition of parameters of linear layers, and the sizes of these layers."""

from __future__ import annotations

from polyrhythm.core.protocols.selection import ParameterInfo


def linear_shape(candidate: ParameterInfo) -> tuple[int, int] | None:
    """Outputs and inputs of the nn.Linear, with a weight that is trained, that owns the parameter; None if there is none.

    Subclasses of nn.Linear may use their weight otherwise, and do not count.
    """
    weight = dict(candidate.module.named_parameters(recurse=False)).get("weight")
    if type(candidate.module).__name__ != "Linear" or weight is None or not weight.requires_grad:
        return None
    outs, ins = weight.shape
    return outs, ins
