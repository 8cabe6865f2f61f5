"""What a training function does with all data at once: `worker.whole_batch`. `Worker` has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.training.checkpointing import Checkpointing
from polyrhythm.core.training.in_parts import WorkerInParts
from polyrhythm.core.training.steps import Steps
from polyrhythm.core.training.whole_batches import NAME, trained
from polyrhythm.core.training.worker_state import WorkerState
from polyrhythm.core.whole_batch.batch_state import BatchJob, BatchState
from polyrhythm.core.whole_batch.portions import Portions
from polyrhythm.core.whole_batch.whole_batch import WholeBatch


class WholeBatchWorker(WorkerInParts):
    """A worker that may compute portions of a whole batch."""

    _steps: Steps
    _state: WorkerState
    _checkpointing: Checkpointing
    broadcast: Callable[[Any], Any]

    def whole_batch(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        data: Any,
        loss: Callable[..., Tensor],
        *,
        portion: int,
        copies: int = 2,
    ) -> WholeBatch:
        """A closure that evaluates the loss of all `data` and its gradient: `optimizer.step(closure)`, as for `torch.optim.LBFGS`.

        `data` is a tuple of tensors or a dataset with a length, the same at every worker; `loss(*samples)` is the mean over a portion of
        `portion` samples, far fewer than a worker's share. Portions are dealt to workers as they ask; when none are left, at most `copies`
        workers compute one that has not come back (1: no backups), and the first counts. Weights, gradients and the optimizer's vectors lie
        at the strategy's servers, which add, scale and multiply them as worker 0's optimizer orders (Sandblaster; Dean et al., NIPS 2012).

        Every worker calls it, in place of `attach`, and takes the same steps. What a lost worker has computed and not sent is dealt again;
        without worker 0 the run ends, unless the crew may change: the next then goes on from the last step. Between steps a worker's model
        has the weights of its last evaluation, in the end the final ones.
        Raises CompositionError for a strategy without servers, WorkloadError when training has started.
        """
        self._steps.refuse_if_finished("worker.whole_batch", "call it at the beginning")
        job = BatchJob(model, trained(model, optimizer), Portions(data, portion), loss)
        chosen = {id(each) for each in job.parameters}
        others = [each.detach() for each in (*model.parameters(), *model.buffers()) if id(each) not in chosen and each.numel()]
        if others:
            for own, first in zip(others, self.broadcast(others), strict=True):
                own.copy_(first)
        self._state.expect_table(NAME)
        closure = self._batches.open(job, optimizer, copies, self._evaluated)
        self._state.resume_table(NAME)
        self._checkpointing.last = max(self._checkpointing.last, self.clock)
        return closure

    def _evaluated(self, state: BatchState, evaluate: Callable[[], None]) -> None:
        """Take a step whose evaluations are made in `evaluate`, and count the samples that were this worker's."""

        def counted() -> None:
            before = state.samples
            evaluate()
            self._steps.count(state.samples - before)

        self._steps.evaluated(state, counted)
