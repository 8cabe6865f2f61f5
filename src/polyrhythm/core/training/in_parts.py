"""What a training function does alike whether its model is in parts or not: building, passes, clipping, evaluation. `Worker` has it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

from torch import Tensor, nn

from polyrhythm.core.kernel.view import ViewChanged
from polyrhythm.core.protocols.partition import LocalParts
from polyrhythm.core.settings import shown
from polyrhythm.core.training.arguments import norm_bound
from polyrhythm.core.training.changing import ChangingCrew
from polyrhythm.core.training.evaluation import Evaluate, Moments, every_moment
from polyrhythm.core.training.observed import ObservedWorker
from polyrhythm.core.training.tables import Tables
from polyrhythm.core.training.whole_batches import WholeBatches
from polyrhythm.errors import WorkloadError

Model = TypeVar("Model", bound=nn.Module)


class WorkerInParts(ObservedWorker):
    """A worker that has a part of a model, or all of it."""

    _local: LocalParts
    _tables: Tables
    _batches: WholeBatches
    _crew: ChangingCrew
    finish: Callable[[], None]

    def build(self, make: Callable[[], Model]) -> Model:
        """The model that `make` returns, `worker.build(Net)`, of which a worker gets memory for its own part alone, when it is attached.

        What it begins with depends on the run's seed and the names of its weights, and not on the mesh. Call it before attaching, at every
        worker; until then the model is on the device "meta". Without a mesh it is `make()`.
        """
        if not callable(make):
            raise WorkloadError(f"worker.build was given {shown(make)}, which is not callable: give a function that returns the model.")
        model = self._local.build(make)
        if not isinstance(model, nn.Module):
            raise WorkloadError(f"worker.build was given {shown(make)}, which returned {shown(model)}: return a torch.nn.Module.")
        return cast(Model, model)

    def train_step(self, inputs: Any, targets: Any, ids: Sequence[Hashable] | None = None) -> Tensor:
        """Add the gradients of a batch to the parameters, by the `loss` that was given at attaching, and return its mean loss.

        It is the forward and the backward pass on every mesh, also where the model is cut into stages, whose workers all call it with the
        same batch; zero the gradients before, and step after it. `ids` name the samples of the batch, for boundaries of stages that
        remember each. Where batches stay under way between steps, the loss is NaN until the first is through, and the steps that are left
        are taken before a checkpoint and at the end. Raises WorkloadError without a loss.
        """
        while True:
            try:
                return self._local.train_step(inputs, targets, ids)
            except ViewChanged as interruption:
                self._crew.reform(interruption.change)

    def clip_gradients(self, norm: float) -> float:
        """Scale all gradients so that the norm of the whole model's is at most `norm`, and return what it was.

        Call it between the backward pass and the step, at every worker: of a model in parts each element counts once, whoever has it. The
        gradients are those of this replica, before an exchange with others.
        """
        return self._local.clip([replica.model for replica in self._models.replicas], _positive(norm))

    def evaluate(self, function: Evaluate, moments: Moments = every_moment) -> None:
        """Evaluate the run's result with `function(model)`, at a grid of times that is the same for every run.

        The function gets the attached models, in the order of attaching, and returns metrics by name, each a float or a tensor of one
        element: `{"accuracy": 0.97}`. It is called at worker 0 after the training, without gradients and in evaluation mode, on snapshots
        of the weights: those of the servers, the mean of the replicas under gossip, or those that all workers share. The training is not
        affected, and it takes no virtual time and no bytes. The metrics of the final weights become the run's.

        The times are 1 ms after the beginning, then each 9 % later, and the end. Floating-point buffers are those of the step in progress,
        averaged over the workers where buffers are. Snapshots take 1 GB at most for each call of `attach`: times are left out to fit.
        `moments` may choose among the times: it gets their number and a function that evaluates at one of these places.

        Of a model in parts the final weights alone are evaluated, of the whole model at worker 0.

        Every worker must call it. Raises WorkloadError after training has started, CompositionError at the first step if only some call it.
        """
        self._models.evaluation.request(function, moments, self._models.checked)

    def weights(self) -> dict[str, Tensor]:
        """The final parameters and buffers by name, on the CPU, and at worker 0 the tables; calls `finish`."""
        self.finish()
        return self._local.whole(self._models.weights()) | self._batches.weights() | self._tables.weights()


def _positive(norm: float) -> float:
    found = norm_bound(norm)
    if found is None:
        raise WorkloadError("worker.clip_gradients was given no norm: give a number above 0.")
    return found
