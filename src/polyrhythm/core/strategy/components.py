"""The components that sparse gradients have, as one vector for rules that look at each component alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from polyrhythm.core.tensors import without_gradient
from polyrhythm.core.torch_private.one_process import sparse_indices, sparse_values


class Components:
    """The values of the gradients of `parameters` end to end, `flat` (n,): of a sparse one those of its rows, of a dense one all."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.grad is not None]
        self.grads = [each.grad.coalesce() if each.grad.is_sparse else each.grad for each in self.parameters if each.grad is not None]
        self.values = [sparse_values(grad) if grad.is_sparse else grad for grad in self.grads]
        self.flat = torch.cat([values.detach().reshape(-1) for values in self.values])

    def put(self, flat: Tensor) -> None:
        """Give the parameters gradients of these values (n,) in the same places; rows of zeros are dropped from sparse ones.

        A parameter whose values are all NO_GRADIENT gets none.
        """
        parts = torch.split(flat.to(self.flat.device), [values.numel() for values in self.values])
        absent = without_gradient(parts)
        for k, (parameter, grad, values) in enumerate(zip(self.parameters, self.grads, self.values, strict=True)):
            part = parts[k].view_as(values)
            parameter.grad = None if absent[k] else _with_rows(grad, part) if grad.is_sparse else part.clone()


def _with_rows(grad: Tensor, values: Tensor) -> Tensor:
    """A sparse gradient with the rows of `grad` and other values; rows of zeros are dropped."""
    left = values.reshape(len(values), -1).ne(0).any(dim=1)
    return torch.sparse_coo_tensor(sparse_indices(grad)[:, left], values[left], grad.shape, is_coalesced=True, check_invariants=False)
