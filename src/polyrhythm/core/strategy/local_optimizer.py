"""The user's optimizer, restricted to the parameters of one exchange.

A replica makes one for each of its parts, whose payload and responses step with it; local rules may reset its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.strategy.clipped_together import ClippedTogether
from polyrhythm.core.strategy.gradients import Parameters
from polyrhythm.core.strategy.optimizers.attachable import changed_groups
from polyrhythm.core.strategy.optimizers.optimizer_options import same
from polyrhythm.core.strategy.rates import at
from polyrhythm.core.trees import copied
from polyrhythm.core.weights.remote_optimizer import describe
from polyrhythm.errors import CompositionError

Options = list[dict[str, Any]]
"""The options of an optimizer's groups, without their parameters: learning rates, momentum, …"""

_RATE = itemgetter("lr")
_ADDED = 1e-6
"""The constant that clip_grad_norm_ adds to the norm by which it divides."""


class LocalOptimizer:
    """Steps on `parameters` alone: the optimizer's other parameters have no gradient in the meantime, so it skips them.

    `plain_step` is the optimizer's own step; a timing-only run replaces it. `clip_norm` is the norm to which gradients are clipped, None
    where they are not. Those of all parts are clipped `together` where a partition divides the model.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, plain_step: Callable[[], Any], parameters: Parameters, clip_norm: float | None
    ) -> None:
        self.optimizer = optimizer
        self.parameters = parameters
        self.clip_norm = clip_norm
        self.clips_merged = False
        self.together: ClippedTogether | None = None
        self.plain_step = plain_step
        self.factor = 1.0
        """The factor of the learning rates in a crew that has changed."""
        self.stepped_at = 0
        """The clock of the step that was taken last."""
        self._weighed_at = 0
        self._kept: tuple[int, Tensor] | None = None
        every = [each for group in optimizer.param_groups for each in group["params"]]
        self._others = [each for each in every if id(each) not in parameters.names]
        # some optimizers (Adagrad, Rprop, …) have a state before their first step
        self._first = [copied(dict(optimizer.state.get(each, {}))) for each in parameters.parameters]
        self._lent: list[dict[str, Any]] | None = None

    def weigh(self, clock: int, weight: float) -> None:
        """Multiply the gradient of the step `clock` by the `weight` of its batch; once, also where the step is taken again."""
        if self._weighed_at != clock:
            self._weighed_at = clock
            for parameter in self.parameters.parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(weight)

    def keep_gradient(self, clock: int) -> None:
        """Keep the gradient of the step `clock`, which an exchange is about to replace; put it back where that is made again."""
        if self._kept is not None and self._kept[0] == clock:
            self.parameters.put_gradient(self._kept[1].clone())
        else:
            self._kept = clock, self.parameters.gradient()

    @property
    def takes_sparse_alone(self) -> bool:
        """True if it steps on nothing but sparse gradients."""
        return isinstance(self.optimizer, torch.optim.SparseAdam)

    @property
    def kind(self) -> str:
        """The name of the optimizer's class."""
        return type(self.optimizer).__name__

    def lend(self) -> str:
        """A text from which the optimizer is built where the weights are held; its options may not change from now on."""
        recipe = describe(self.optimizer, self.parameters.names)
        self._lent = self._options()
        return recipe

    def rates(self) -> tuple[float, ...]:
        """The learning rates of the optimizer's groups, as its scheduler has set them; no other option is sent.

        Raises CompositionError if the optimizer is run elsewhere and other options have changed.
        """
        if self._lent is not None and self._options() != self._lent and not same(self._options(), self._lent):
            raise CompositionError(
                f"Options of {self.kind} other than the learning rate changed after worker.attach, but the server that runs it receives "
                f"learning rates only: keep the others constant (for a scheduler that cycles momentum give cycle_momentum=False)."
            )
        rates = map(float, map(_RATE, self.optimizer.param_groups))
        return tuple(rates) if self.factor == 1 else tuple(rate * self.factor for rate in rates)

    def _options(self) -> list[dict[str, Any]]:
        keys = self.optimizer.defaults.keys() - {"lr"}
        return [{key: group[key] for key in keys} for group in self.optimizer.param_groups]

    def step(self) -> None:
        """Step on the gradients that the parameters have."""
        if not self._others:
            self.plain_step()
            return
        with self._alone():
            self.plain_step()

    def step_on(self, gradient: Tensor, rates: tuple[float, ...]) -> None:
        """Step on `gradient` (numel,) with these learning rates of the groups."""
        self.parameters.put_gradient(gradient)
        self.step_at(rates)

    def step_scaled(self, scale: float) -> None:
        """Step on the gradients that the parameters have, with the learning rates times `scale`."""
        self._step_merged(None if scale * self.factor == 1 else tuple(rate * scale for rate in self.rates()))

    def step_at(self, rates: tuple[float, ...]) -> None:
        """Step with these learning rates of the groups."""
        self._step_merged(rates)

    def _step_merged(self, rates: tuple[float, ...] | None) -> None:
        if self.clips_merged and self.clip_norm is not None:
            if self.together is not None:
                self._refuse_sparse()
                self.together.hold(partial(self._step_with, rates), self.clip_norm)
                return
            self.clip()
        self._step_with(rates)

    def _step_with(self, rates: tuple[float, ...] | None) -> None:
        if rates is None:
            self.step()
        else:
            with at(self.optimizer, rates):
                self.step()

    def states(self) -> list[dict[str, Any]]:
        """The optimizer's state of each of these parameters; a new one, empty, where there is none."""
        return [self.optimizer.state.get(parameter, {}) for parameter in self.parameters.parameters]

    def options_now(self) -> Options:
        """The options of the optimizer's groups as they are now."""
        groups = self.optimizer.param_groups
        return [{k: v.clone() if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"} for group in groups]

    def step_these(self, parameters: Sequence[nn.Parameter], options: Options, scale: float) -> None:
        """Step on the gradients of some of the parameters, with these options of the groups and their learning rates times `scale`."""
        if self.clips_merged:
            self.clip()
        groups, chosen = self.optimizer.param_groups, {id(parameter) for parameter in parameters}
        if len(groups) != len(options):
            raise changed_groups()
        kept = [dict(group) for group in groups]
        try:
            for group, then in zip(groups, options, strict=True):
                group.update(then, params=[each for each in group["params"] if id(each) in chosen])
            with at(self.optimizer, tuple(float(then["lr"]) * scale * self.factor for then in options)):
                self.plain_step()
        finally:
            for group, before in zip(groups, kept, strict=True):
                group.update(before)

    def reset(self) -> None:
        """Restore the state of these parameters from before the first step."""
        for parameter, first in zip(self.parameters.parameters, self._first, strict=True):
            state = self.optimizer.state[parameter]
            state.clear()
            state.update(copied(first))

    def clip(self) -> None:
        """Clip the gradients that the parameters have. Raises CompositionError for sparse ones."""
        if self.clip_norm is not None:
            self._refuse_sparse()
            nn.utils.clip_grad_norm_(self.parameters.parameters, self.clip_norm)

    def _refuse_sparse(self) -> None:
        if any(each.grad is not None and each.grad.is_sparse for each in self.parameters.parameters):
            raise CompositionError("clip_norm cannot clip sparse gradients: leave it out, or build the embedding with sparse=False.")

    def clipped(self, direction: Tensor) -> Tensor:
        """A merged direction (numel,), on which another optimizer will step, clipped as by `clip`; unchanged where nothing is clipped."""
        if self.clip_norm is None or not self.clips_merged:
            return direction
        norm = nn.utils.get_total_norm(self.parameters.layout.views(direction))
        return direction * (self.clip_norm / (norm + _ADDED)).clamp(max=1.0)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        kept = [each.grad for each in self._others]
        for each in self._others:
            each.grad = None
        try:
            yield
        finally:
            for each, grad in zip(self._others, kept, strict=True):
                each.grad = grad
