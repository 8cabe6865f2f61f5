"""An optimizer of another library's, in the form of torch's that a worker attaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import CompositionError


class ForeignRule(Protocol):
    """The step of the other library's optimizer, and its state from step to step."""

    def state(self) -> Sequence[Tensor]:
        """The optimizer's state: always as many tensors, of the same types and shapes."""

    def take(self, state: Sequence[Tensor]) -> None:
        """Take over `state`, from which the next step continues."""

    def apply(self, parameters: Sequence[nn.Parameter]) -> None:
        """Step on the gradients of all `parameters`, in place."""


class ForeignOptimizer(torch.optim.Optimizer):
    """Steps on `parameters` by `rule`, whose state is that of the first parameter.

    `lr` is what the strategy scales the step with, 1 unless it weights contributions. Raises CompositionError for parameters without
    a gradient, which are left to another exchange.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], rule: ForeignRule) -> None:
        super().__init__(parameters, {"lr": 1.0})
        self._rule = rule
        self._types = [each.dtype for each in rule.state()]
        self._keep()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step on the gradients that the parameters have."""
        parameters, scale = self.param_groups[0]["params"], float(self.param_groups[0]["lr"])
        missing = sum(each.grad is None for each in parameters)
        if missing:
            raise CompositionError(
                f"{missing} of {len(parameters)} parameters have no gradient, but an optimizer of another library steps on all at once: "
                "freeze what is not trained, and use a strategy with one exchange for all parameters."
            )
        held = self.state[parameters[0]]
        self._rule.take([held[str(k)].to(kind) for k, kind in enumerate(self._types)])
        before = [each.detach().clone() for each in parameters] if scale != 1.0 else []
        self._rule.apply(parameters)
        for each, start in zip(parameters, before, strict=False):
            each.lerp_(start, 1.0 - scale)
        self._keep()

    def _keep(self) -> None:
        first = self.param_groups[0]["params"][0]
        self.state[first] = {str(k): each for k, each in enumerate(self._rule.state())}


def attach_foreign(worker: Worker, model: nn.Module, optimizer: ForeignOptimizer) -> None:
    """Attach it. Raises CompositionError for a strategy that steps on gradients by its own rule, whose learning rate nobody knows."""
    worker.attach(model, optimizer)
    for part in worker.attached[-1].parts:
        if part.agreement.rule is not None and part.agreement.payload.is_gradient:
            raise CompositionError(
                f"{part.agreement.merge!r} steps by its own rule on gradients, and takes the rate from a torch optimizer: use "
                "a system whose workers step themselves (allreduce, ssp, sparknet, diloco, gossipgrad, …)."
            )
