"""JAX's pytrees of parameters and gradients, exchanged by the strategy; optax is the optimizer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch import Tensor, nn

from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.integrations.foreign import ForeignOptimizer, attach_foreign


class TreeExchange:
    """One worker's parameters, a pytree of float32 or float64 arrays, which `step` moves by the gradients of all.

    `transformation` is optax's: it is applied to merged gradients where workers exchange gradients (allreduce), and to the worker's own
    where it steps locally (ssp, diloco, sparknet, gossipgrad). Systems whose servers run the optimizer cannot run optax's: they are
    refused with a CompositionError.
    """

    def __init__(self, worker: Worker, params: Any, transformation: optax.GradientTransformation) -> None:
        paths, self._tree = jax.tree_util.tree_flatten_with_path(params)
        named = ((jax.tree_util.keystr(path).replace(".", "_"), _parameter(leaf)) for path, leaf in paths)
        self._module = nn.ParameterDict(OrderedDict(named))  # a plain dict would be sorted by names, in which [10] is before [2]
        self._parameters = [*self._module.parameters()]
        self._rule = _Optax(transformation, self._tree, params)
        self._optimizer = ForeignOptimizer(self._parameters, self._rule)
        attach_foreign(worker, self._module, self._optimizer)

    @property
    def params(self) -> Any:
        """The parameters as they are now: copies, since a strategy changes them in place."""
        return jax.tree_util.tree_unflatten(self._tree, [jnp.array(each.detach().numpy()) for each in self._parameters])

    @property
    def state(self) -> Any:
        """The state of optax's transformation."""
        return self._rule.held

    def step(self, gradients: Any) -> Any:
        """Take a step, and return the parameters after it. Not inside `jax.jit`: raises WorkloadError there."""
        leaves = self._tree.flatten_up_to(gradients)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise WorkloadError(
                "The step of an exchange was called inside jax.jit (or grad, vmap, …), but it waits for other workers: compile the "
                "function that computes gradients, and call the step outside of it."
            )
        for parameter, leaf in zip(self._parameters, leaves, strict=True):
            parameter.grad = _tensor(leaf)
        self._optimizer.step()
        return self.params


class _Optax:
    """A `ForeignRule`: a transformation of optax's on parameters in `tree`."""

    def __init__(self, transformation: optax.GradientTransformation, tree: Any, params: Any) -> None:
        self._tree = tree
        self.held = transformation.init(params)

        def step(gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
            updates, state = transformation.update(gradients, state, params)
            return optax.apply_updates(params, updates), state

        self._step = jax.jit(step)

    def state(self) -> Sequence[Tensor]:
        """The leaves of optax's state."""
        return [_tensor(leaf) for leaf in jax.tree_util.tree_leaves(self.held)]

    def take(self, state: Sequence[Tensor]) -> None:
        """Take over `state` as the leaves of optax's state."""
        structure = jax.tree_util.tree_structure(self.held)
        self.held = jax.tree_util.tree_unflatten(structure, [jnp.array(each.numpy()) for each in state])

    def apply(self, parameters: Sequence[nn.Parameter]) -> None:
        """Apply one compiled update to the parameters, in place."""
        gradients, params = (
            jax.tree_util.tree_unflatten(self._tree, [jnp.array(each.detach().numpy()) for each in part])
            for part in ([each.grad for each in parameters if each.grad is not None], parameters)
        )
        moved, self.held = self._step(gradients, self.held, params)
        for parameter, leaf in zip(parameters, jax.tree_util.tree_leaves(moved), strict=True):
            parameter.copy_(_tensor(leaf))


def _parameter(leaf: Any) -> nn.Parameter:
    if jnp.result_type(leaf) not in (jnp.float32, jnp.float64):
        raise CompositionError(
            f"The parameters have a leaf of {jnp.result_type(leaf)}, which cannot be exchanged: keep parameters in float32, and compute in "
            "half precision."
        )
    return nn.Parameter(_tensor(leaf))


def _tensor(leaf: Any) -> Tensor:
    return torch.from_numpy(np.array(leaf))
