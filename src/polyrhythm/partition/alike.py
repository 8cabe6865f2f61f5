"""A check that the workers of a replica have the same of what all of them have whole: norms, biases, whatever the cut does not divide."""

from __future__ import annotations

from torch import Tensor, nn

from polyrhythm.core.kernel.comparison import Comparison, Fact, Sketch, Times
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.partition.placement import placement_of

_VALUES = 16
_TOLERANCE = 1e-5
_REMEDY = (
    "weights that no axis divides must get the same gradient at all workers of a replica. Clip by worker.clip_gradients(norm), draw random "
    "numbers by place (a style for nn.Dropout), and write nothing that depends on the rank."
)


class AlikeInReplica:
    """Compares the undivided weights of `models` among the workers of `replica`, before steps 1, 2, 4 and so on."""

    def __init__(self, context: WorkerContext, replica: Group) -> None:
        self._context, self._replica = context, replica
        self._steps, self._next = 0, 1
        self.models: list[nn.Module] = []
        self.followed = False
        """True where workers take the weights of the first after each step, and what comes between steps may make them differ."""

    def step(self) -> None:
        """A step begins."""
        self._steps += 1
        if self._steps == self._next and self._replica.size > 1 and not self.followed:
            self._next *= 2
            shown = f"step {self._steps}"
            moment = f"{shown} of the replica {self._replica.name}"
            self._context.free(lambda: self._context.compare(Comparison(moment, shown, self._found())))

    def _found(self) -> dict[str, Fact | Sketch | Times]:
        found: dict[str, Fact | Sketch | Times] = {}
        for model in self.models:
            for name, parameter in model.named_parameters():
                if not placement_of(parameter).axes and parameter.numel():
                    found[f"undivided weights {name}"] = Sketch(_sample(parameter), _TOLERANCE, "", _REMEDY)
        return found


def _sample(tensor: Tensor) -> tuple[float, ...]:
    flat = tensor.detach().reshape(-1)
    return tuple(flat[:: max(1, len(flat) // _VALUES)].double().tolist())
