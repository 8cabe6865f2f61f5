"""The protocol of a partition: what each worker of a run holds of a model.

`pr.run` is given one with `mesh=` and `cut=`; without, every worker has the whole model (`WholeModel`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.mesh import FLAT, MeshShape, WorkerMesh
from polyrhythm.errors import WorkloadError

Loss = Callable[[Any, Any], Tensor]
"""The mean loss of a batch from outputs and targets."""
_DIVIDED, _IN_PARTS = "_polyrhythm_divided_over", "_polyrhythm_batch_in_parts"
_PART, _FOLLOWS = "_polyrhythm_part", "_polyrhythm_follows"


def divide_over(parameter: Tensor, axes: tuple[str, ...]) -> None:
    """Note the axes of the mesh along which a parameter is divided."""
    setattr(parameter, _DIVIDED, axes)


def divided_over(parameter: Tensor) -> tuple[str, ...]:
    """The axes of the mesh along which a parameter is divided; none where all workers of a replica have it whole."""
    found: tuple[str, ...] = getattr(parameter, _DIVIDED, ())
    return found


def note_part(tensor: Tensor, part: int) -> None:
    """Note the part of the model that a parameter or buffer belongs to, where a worker may hold several parts."""
    setattr(tensor, _PART, part)


def part_of(tensor: Tensor) -> int | None:
    """The part of the model that a parameter or buffer belongs to; None where the worker holds one, and of what all workers have."""
    found: int | None = getattr(tensor, _PART, None)
    return found


def follow_owner(parameter: Tensor) -> None:
    """Note that a parameter is a copy which is given the weights of its owner, and so is neither trained nor exchanged by itself."""
    setattr(parameter, _FOLLOWS, True)


def follows_owner(parameter: Tensor) -> bool:
    """True if a parameter is a copy that is given the weights of its owner."""
    return getattr(parameter, _FOLLOWS, False)


def take_batches_in_parts(model: nn.Module) -> None:
    """Note that the gradients of one step of the model come in several backward passes."""
    setattr(model, _IN_PARTS, True)


def takes_batches_in_parts(model: nn.Module) -> bool:
    """True if the gradients of one step come in several backward passes, so that none is complete before the last."""
    return getattr(model, _IN_PARTS, False)


class LocalParts(Protocol):
    """The parts of models that one worker holds."""

    def build(self, make: Callable[[], nn.Module]) -> nn.Module:
        """The model that `make` returns, of which this worker gets memory for its own part."""

    def localize(self, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Loss | None) -> None:
        """Replace the modules of `model` that are divided, and the parameters of `optimizer`, by this worker's; `loss` is its mean loss."""

    def attached(self, replica: Any) -> None:
        """The `Replica` of the model that was localized last has its parameters where they stay.

        Raises CompositionError where it clips merged gradients, and they cannot be.
        """

    def train_step(self, inputs: Any, targets: Any, ids: Sequence[Hashable] | None = None) -> Tensor:
        """Add the gradients of a batch to the parameters, and return its loss; `ids` name its samples, for what remembers them.

        Raises WorkloadError where no loss was given.
        """

    def settle(self) -> None:
        """Take the steps of batches that are still under way: the weights are about to be kept or looked at."""

    @property
    def trained(self) -> int:
        """The number of training steps that are complete here, of which the optimizer may not have used the last; 0 if no part is lost."""

    def regroup(self, mesh: WorkerMesh, trained: int) -> None:
        """Workers of `mesh` are absent now. Somebody has completed so many training steps as `trained`: all of them count."""

    def clip(self, models: Sequence[nn.Module], norm: float) -> float:
        """Scale all gradients so that their norm is at most `norm`; returns what it was."""

    def held(self, replica: Any) -> Any:
        """What this worker has of a `Replica`, for a checkpoint that a worker of another mesh may resume; None where nothing is divided."""

    def relaid(self, replica: Any, former: Sequence[tuple[Any, Any]]) -> Any:
        """The state of a `Replica` from those that workers of another mesh have exported, each with what it held."""

    def drawn(self) -> Any:
        """How many random numbers by place were drawn, for a checkpoint; None where there are none."""

    def draw_on(self, former: Sequence[Any]) -> None:
        """Go on from what these workers had drawn: this one, or those with the parts of another mesh."""

    def whole_models(self, models: Sequence[nn.Module]) -> list[nn.Module]:
        """The whole models with the weights of this replica, at its first worker; none at the others. All of its workers call it."""

    def complete(self) -> None:
        """Complete the gradients of this worker's parts: the optimizer's step begins."""

    def follow(self) -> None:
        """A step was taken: have of the first worker what must be equal in the replica, and each may have found otherwise.

        These are weights that all have whole, where each merges what comes to it, and batches and local steps that controllers choose.
        """

    def whole(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies on the CPU of the whole model's parameters and buffers, at the first worker of its replica; none at the others.

        `state` are this worker's, and all workers of the replica call it.
        """


class ModelPartition(Protocol):
    """A partition of models over the axes of a mesh. Settings are frozen."""

    @property
    def shape(self) -> MeshShape:
        """The axes of the mesh."""

    def at(self, context: WorkerContext, mesh: WorkerMesh) -> LocalParts:
        """The side of the worker of `context`."""


class WholeModel:
    """Every worker has a replica of the whole model."""

    shape = FLAT

    def at(self, context: WorkerContext, mesh: WorkerMesh) -> LocalParts:
        """Nothing is divided."""
        return Undivided()


WHOLE = WholeModel()


class Undivided:
    """A worker's side where nothing is divided."""

    def __init__(self, seed: int = 0) -> None:
        self._step: Callable[[Any, Any], Tensor] | None = None

    def build(self, make: Callable[[], nn.Module]) -> nn.Module:
        """What `make` returns."""
        return make()

    def localize(self, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Loss | None) -> None:
        """Leave them as they are."""
        self._step = None if loss is None else train_step(model, loss)

    def attached(self, replica: Any) -> None:
        """They stay."""

    def train_step(self, inputs: Any, targets: Any, ids: Sequence[Hashable] | None = None) -> Tensor:
        """The forward and the backward pass."""
        if self._step is None:
            raise no_loss()
        return self._step(inputs, targets)

    def settle(self) -> None:
        """Nothing is under way between steps."""

    @property
    def trained(self) -> int:
        """None is told to others."""
        return 0

    def regroup(self, mesh: WorkerMesh, trained: int) -> None:
        """Nothing depends on who is there."""

    def clip(self, models: Sequence[nn.Module], norm: float) -> float:
        """By torch."""
        parameters = {id(each): each for model in models for each in model.parameters()}
        return nn.utils.clip_grad_norm_(parameters.values(), norm).item()

    def held(self, replica: Any) -> Any:
        """None: nothing is divided."""

    def relaid(self, replica: Any, former: Sequence[tuple[Any, Any]]) -> Any:
        """Not called: checkpoints of whole models are taken over by each worker."""
        raise AssertionError("nothing is divided")

    def drawn(self) -> Any:
        """None: random numbers are torch's."""

    def draw_on(self, former: Sequence[Any]) -> None:
        """Torch's generator has its own state."""

    def whole_models(self, models: Sequence[nn.Module]) -> list[nn.Module]:
        """The models themselves."""
        return list(models)

    def complete(self) -> None:
        """They are complete."""

    def follow(self) -> None:
        """No other worker has a part of this replica."""

    def whole(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of them."""
        return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}


def train_step(model: nn.Module, loss: Any) -> Callable[[Any, Any], Tensor]:
    """The forward and the backward pass of `model` by a mean loss, or an object that has one as its `loss`."""
    function: Loss = getattr(loss, "loss", loss)

    def step(inputs: Any, targets: Any) -> Tensor:
        found = function(model(inputs), targets)
        found.backward()  # type: ignore[no-untyped-call]
        return found.detach()

    return step


def no_loss() -> WorkloadError:
    """The error of `train_step` without a loss."""
    return WorkloadError(
        "worker.train_step computes a loss that it was not given: give it, worker.attach(model, optimizer, loss=function), a function of "
        "outputs and targets."
    )
