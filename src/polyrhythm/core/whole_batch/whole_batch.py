"""The closure that `worker.whole_batch` returns to the training function."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.whole_batch.batch_state import BatchState


class WholeBatch:
    """A closure for `optimizer.step(...)`: each call is an evaluation of all the data, by all workers together.

    It returns the loss () of the whole batch, float64, without a gradient: that is at the servers. A closure of your own may call it once.
    """

    def __init__(self, state: BatchState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<WholeBatch: {self._state.shape}>"

    def __call__(self) -> Tensor:
        return self._state.evaluate()

    @property
    def evaluations(self) -> int:
        """The number of the last evaluation in which this worker took part."""
        return self._state.evaluation
