"""Weights, at a worker's replica or a server's shard, and what merging does to them.

`strategy.part` makes one for each part of an attached model, and a server one for its shard; responses of exchanges change them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import Controls
from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.protocols.merge import AnyContribution, Merge, combining, mixing, rates_of, rule_of, scale_of_all
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree

Optimize = Callable[[Tensor, tuple[float, ...]], None]
"""Takes an optimizer's step on a gradient (numel,), with these learning rates of its groups."""


class ModelState:
    """Weights (numel,) and what merging does to them; implements `protocols.weights.HeldWeights`.

    `optimize` runs an optimizer on a gradient; without one, directions are subtracted. `anchor` is where subtraction starts:
    a worker that takes local steps has moved away from the weights it last agreed on, and those are the anchor. `own_step` runs the
    optimizer on the gradient that the parameters have, with its learning rates multiplied. `context` has the group whose contributions are
    merged, and a random stream. The owner may replace `clip`, which is applied to directions before the merge's own optimizer gets them,
    and `rates`, which gives the learning rates of the worker's optimizer; it sets `clock`: a worker's step, at a server the slowest
    worker's merged one; `factors` of the gradient that is being exchanged; and `samples`, which a worker has computed on since they were
    last taken.
    """

    __slots__ = (
        "_start",
        "anchor",
        "clip",
        "clock",
        "factors",
        "layout",
        "memory",
        "merge",
        "optimize",
        "own_step",
        "owned",
        "rates",
        "rule",
        "samples",
        "state",
        "version",
        "weights",
    )

    def __init__(
        self,
        weights: Tensor,
        layout: Layout,
        merge: Merge,
        context: ExchangeContext,
        optimize: Optimize | None,
        own_step: Callable[[float], None] | None = None,
    ) -> None:
        self.weights = weights
        self.owned = True
        self.anchor = weights
        self.layout = layout
        self.merge = merge
        self.rule = rule_of(merge)
        self.memory: State = {}
        self.state: State = self.rule.initial(layout) if self.rule else {}
        self.optimize = optimize
        self.own_step = own_step
        self.clip: Callable[[Tensor], Tensor] = _whole
        self.rates: Callable[[], tuple[float, ...]] = _no_rates
        self._start = context
        self.clock = 0
        self.version = 0
        self.factors: Mapping[str, Factors] = {}
        self.samples = 0.0

    @property
    def controls(self) -> Controls:
        """The controller's decisions so far."""
        return self._start.controls

    @property
    def context(self) -> ExchangeContext:
        """The exchange at this clock, with the weights as they are."""
        return self._start.changed(clock=self.clock, source=lambda: self.weights, layout=self.layout, state=self.memory, update=self.moved)

    def export(self) -> StateTree:
        anchor = None if self.anchor is self.weights else self.anchor
        return {
            "weights": self.weights,
            "anchor": anchor,
            "rule": self.state,
            "merge": self.memory,
            "clock": self.clock,
            "version": self.version,
            "samples": self.samples,
        }

    def restore(self, state: StateTree) -> None:
        """Take over an exported state; the weights are copied into the memory that they are in."""
        if state["weights"].shape != self.weights.shape:  # copy_ repeats a single one
            raise ValueError(f"{state['weights'].numel()} weights, where this model has {self.weights.numel()}")
        if self.owned:
            self.weights.copy_(state["weights"])
        if state["anchor"] is not None:
            self.anchor = state["anchor"].to(self.weights.device)
        self.state, self.memory, self.clock, self.version = state["rule"], state["merge"], state["clock"], state["version"]
        self.samples = state["samples"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """Take over a state that was exported among other workers, this worker's `own` or that of one that it joins."""
        self.restore(state if own else {**state, "samples": 0.0})

    def take_samples(self) -> float:
        """Samples that the worker has computed on since this was last called."""
        taken, self.samples = self.samples, 0.0
        return taken

    def set_anchor(self) -> None:
        """Remember the weights as they are now: later local steps count from here."""
        self.anchor = self.weights.clone()

    def set_anchor_to_weights(self) -> None:
        """Set the anchor to the weights as they are, if it is separate from them; without local steps it is not."""
        if self.anchor is not self.weights:
            self.anchor.copy_(self.weights)

    def moved(self) -> Tensor:
        """The change by local steps since the anchor (numel,), with the sign of a gradient: anchor minus weights."""
        return self.anchor - self.weights

    def move(self, contributions: Sequence[AnyContribution]) -> None:
        """Merge gradients or updates. They were received, so they are on the CPU; these weights may be on another device."""
        direction = combining(self.merge).combine(contributions, self.context)
        self.memory = direction.state
        device, rates = self.weights.device, rates_of(contributions)
        if self.rule is not None:
            clipped, rate = self.clip(direction.average().to(device)), rates[0] if rates else 0.0
            step, self.state = self.rule.step(clipped, self.state, rate, self._start.group.size)
            self.adopt(self.anchor - direction.scale * step)
        elif self.optimize is not None:
            self.optimize(direction.average().to(device), tuple(rate * direction.scale for rate in rates))
        else:
            self.adopt(self.anchor - direction.move().to(device))
        self.version += 1

    def step(self, scale: float) -> None:
        """Step on the gradient that the parameters have, with the optimizer's learning rates times `scale`."""
        assert self.own_step is not None, "only a worker's gradient lies where its optimizer takes it from"
        self.own_step(scale)
        self.version += 1

    @property
    def scale_of_mean(self) -> float:
        """The factor by which a merge that averages multiplies learning rates for the mean of all workers' gradients at this clock."""
        scale = scale_of_all(self.merge, self.clock, self._start.group.size)
        assert scale is not None, "only a merge that averages leaves the mean where it was made"
        return scale

    def step_on_mean(self) -> None:
        """Step on the mean of all workers' gradients, which the parameters have, with the merge's factor on the learning rates."""
        self.step(self.scale_of_mean)

    def mix(self, theirs: Sequence[Tensor]) -> None:
        """Merge the weights of other workers into these."""
        own = self.weights
        self.adopt(mixing(self.merge).mix(own, [weights.to(own.device) for weights in theirs], self.context))
        self.version += 1

    def mix_part(self, start: int, layout: Layout, theirs: Sequence[Tensor]) -> None:
        """Merge the weights of other workers into a range of these; the anchor stays."""
        own = self.weights.narrow(0, start, layout.numel)
        context = self.context.range(start, layout)
        own.copy_(mixing(self.merge).mix(own, [weights.to(own.device) for weights in theirs], context))
        self.version += 1

    def replace(self, sent: Tensor, summed: AnyContribution) -> None:
        """Replace what was `sent` (numel,) of these weights by the merged sum of what all workers sent of theirs.

        An element that was sent whole gets the same bits at all workers; one of which nothing was sent keeps its own.
        """
        direction, device = combining(self.merge).combine([summed], self.context), self.weights.device
        self.memory = direction.state
        self.adopt(self.weights - sent.to(device) + direction.move().to(device))
        self.version += 1

    def adopt(self, weights: Tensor) -> None:
        self.weights.copy_(weights)
        if self.anchor is not self.weights:
            self.anchor.copy_(weights)

    def place(self, weights: Tensor, owned: bool) -> None:
        """Replace the weights by those in `weights` (numel,), whose memory they have from now on; if not `owned`, others restore them."""
        if self.anchor is self.weights:
            self.anchor = weights
        else:
            self.anchor.copy_(weights)
        self.weights = weights
        self.owned = owned


def _whole(direction: Tensor) -> Tensor:
    return direction


def _no_rates() -> tuple[float, ...]:
    return ()
