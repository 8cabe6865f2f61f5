"""Flax's TrainState as one of many workers'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.struct
import flax.training.train_state
import optax

from polyrhythm.core.training.worker import Worker
from polyrhythm.integrations.jax import TreeExchange


class TrainState(flax.training.train_state.TrainState):  # type: ignore[misc]
    """`TrainState.create(apply_fn=..., params=..., tx=..., worker=worker)`; `apply_gradients` takes a step with the other workers.

    Call `apply_gradients` outside `jax.jit`. Raises CompositionError for systems and parameters that `TreeExchange` does not take.
    """

    exchange: Any = flax.struct.field(pytree_node=False, default=None)

    @classmethod
    def create(
        cls, *, apply_fn: Callable[..., Any], params: Any, tx: optax.GradientTransformation, worker: Worker, **options: Any
    ) -> TrainState:
        """A state with the parameters of worker 0."""
        exchange = TreeExchange(worker, params, tx)
        return cls(step=0, apply_fn=apply_fn, params=exchange.params, tx=tx, opt_state=exchange.state, exchange=exchange, **options)

    def apply_gradients(self, *, grads: Any, **options: Any) -> TrainState:
        """The state after a step on the gradients of all workers."""
        params = self.exchange.step(grads)
        return self.replace(step=self.step + 1, params=params, opt_state=self.exchange.state, **options)  # type: ignore[no-any-return]
