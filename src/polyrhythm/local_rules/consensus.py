"""Consensus ADMM: dual variables pull the workers' local problems together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import LocalHooks, Moments
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_DUAL, _RESIDUAL = "u", "residual"


@dataclass(frozen=True, slots=True)
@checked
class Consensus:
    """The local steps of consensus ADMM in scaled form (Boyd et al., 2011, section 7.1; with SGD for local problems: Hegde, Usmani, 2016).

    Worker k steps on f_k(w) + rho/2 |w - z + u_k|². Then z <- mean(w_k + u_k) and u_k <- u_k + w_k - z. The duals start at 0 and always sum
    to 0, so that z is the mean of the w_k, as `Mean` gives it from updates. A worker's next problem starts from its own w_k; the
    result is z. Too small a rho lets the workers of a nonconvex problem drift apart until it diverges, too large a one holds them at z; SGD
    needs a learning rate well below 1 / rho.
    """

    rho: float

    def __post_init__(self) -> None:
        if not self.rho > 0:
            raise CompositionError(f"Consensus(rho={self.rho}) pulls nobody to the consensus: give more than 0, such as 0.1.")

    @property
    def traits(self) -> LocalTraits:
        """A worker starts its next problem from its own weights; z must be the mean, so that the duals sum to 0."""
        return LocalTraits(frozenset({Payload.UPDATE}), frozenset({Capability.MEAN}))

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(initial=self.initial, correct=self.correct, settle=self.settle, go_on=self.go_on, figures=self.figures)

    def initial(self, layout: Layout) -> State:
        """Duals of 0, and all workers at z."""
        return {_DUAL: torch.zeros(layout.numel), _RESIDUAL: torch.zeros(())}

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """g + rho (w - z + u)."""
        return gradient - self.rho * (context.moved - state[_DUAL])  # NO_GRADIENT, -0.0, minus a penalty of 0.0 is still -0.0

    def settle(self, context: ExchangeContext, state: State, moments: Moments) -> State:
        """u + w - z, and the primal residual |w - z| / |z|."""
        z, apart = context.weights, context.moved
        return {_DUAL: state[_DUAL] - apart, _RESIDUAL: apart.norm() / z.norm().clamp_min(torch.finfo(z.dtype).tiny)}

    def go_on(self, agreed: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        """The worker's own weights, from which its next problem starts."""
        return own

    def figures(self, state: State) -> Mapping[str, float]:
        """The primal residual: the distance of the worker from the consensus, relative to the norm of that."""
        return {"primal_residual": state[_RESIDUAL].item()}


EXAMPLES = (Consensus(0.1),)
