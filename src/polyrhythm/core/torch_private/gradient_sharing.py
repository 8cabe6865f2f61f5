"""Private names of torch that say whether a pass of a model may be computed apart from its program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.torch_private.needed import needed

_any_global_hook: Any = needed(torch.nn.modules.module, "_has_any_global_hook")


def has_hooks(modules: Sequence[nn.Module], parameters: Sequence[Tensor]) -> bool:
    """True if something is called in a pass of `modules`, or when a gradient of `parameters` is there."""
    if _any_global_hook():
        return True
    for module in modules:
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            return True
    return any(each._backward_hooks or each._post_accumulate_grad_hooks for each in parameters)


def is_transformed(tensor: Tensor) -> bool:
    """True for a tensor below `torch.func.vmap` or another transformation."""
    return bool(torch._C._functorch.is_batchedtensor(tensor))


def is_transforming() -> bool:
    """True inside of `torch.func.vmap`, `grad` or another transformation."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def has_saved_tensor_hooks() -> bool:
    """True under hooks of saved tensors, such as those of a checkpoint."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
