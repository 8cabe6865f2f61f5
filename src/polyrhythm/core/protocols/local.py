"""Protocol of local rules: corrections of the steps between two exchanges, and of the state after an exchange.

Members are in `local_rules`. The worker's replica calls a rule before each local step and after each exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.tensors import Layout, State


class Moments(Protocol):
    """The state of a worker's optimizer: momentum, second moments, step counts."""

    def reset(self) -> None:
        """Return to the state before the first step."""


class LocallyStepped(NamedTuple):
    """A worker after its local steps: its `weights` (numel,), those of the last exchange, and the gradient of the last step.

    `gradient` makes a copy of the gradient on which the optimizer stepped, after the rule's correction and clipping.
    """

    weights: Tensor
    anchor: Tensor
    gradient: Callable[[], Tensor]


class MixingRule(Protocol):
    """Vectors that neighbours mix in place of the weights, or in addition to them, and the weights that follow from the mixtures."""

    @property
    def vectors(self) -> int:
        """The number of vectors that it sends: one takes the place of the weights, and each of the others is mixed in the same way."""

    @property
    def least_eigenvalue(self) -> float | None:
        """The mixing matrix must be symmetric, the same in every exchange, and have no eigenvalue as small as this; None for any matrix."""

    def send(self, stepped: LocallyStepped, state: State) -> tuple[Tensor, ...]:
        """The vectors (numel,) that it sends, each a new tensor; `state` is the rule's."""

    def take(self, mixed: Sequence[Tensor], sent: Sequence[Tensor], state: State) -> tuple[Tensor, State]:
        """The weights (numel,) from which the worker continues, and the rule's next state."""


def _nothing(layout: Layout) -> State:
    return {}


def _no_figures(state: State) -> Mapping[str, float]:
    return {}


@dataclass(frozen=True, slots=True)
class LocalHooks:
    """The work of a local rule at each local step and after each exchange; None for what it leaves as it is.

    Its state, such as dual variables, is an argument and part of the result.
    """

    initial: Callable[[Layout], State] = _nothing
    """The state before the first step."""

    correct: Callable[[Tensor, ExchangeContext, State], Tensor] | None = None
    """`correct(gradient, context, state)`: the gradient (numel,), on the CPU, on which the worker's optimizer steps in place of its own.

    A `componentwise` rule gets only the values (n,) of sparse gradients; rows that it makes zero are dropped.
    `context.weights` are the worker's; `context.moved` is the change by its steps since the last exchange, with the sign of a gradient."""

    settle: Callable[[ExchangeContext, State, Moments], State] | None = None
    """`settle(context, state, moments)`: the next state, after an exchange. `moments` are those of the worker's optimizer.

    `context.weights` are the weights after the exchange; `context.moved` is these minus the worker's own before it, which has the sign
    of a gradient."""

    go_on: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    """`go_on(agreed, own, sent)`: the weights (numel,) from which a worker continues after an exchange of updates, if not those agreed on.

    `agreed` are the weights after the exchange, from which the next update counts, `own` the worker's when they came, and `sent` its
    own when it sent its update: these differ from `own` only where the response comes some steps later."""

    figures: Callable[[State], Mapping[str, float]] = _no_figures
    """Figures of the state, by name, for the record of the run each time that it settles; empty for nothing."""

    mixing: MixingRule | None = None
    """The rule where neighbours mix weights; None where they mix the weights as they are, and nothing else."""


class LocalRule(Protocol):
    """Corrects local steps. Settings are frozen."""

    @property
    def traits(self) -> LocalTraits:
        """The properties that composition checks."""

    @property
    def hooks(self) -> LocalHooks:
        """Its work, for the whole run: callers at every step keep them."""


@dataclass(frozen=True, slots=True)
class PlainSteps:
    """The optimizer steps on the worker's gradient, and keeps its state over exchanges."""

    traits: ClassVar = LocalTraits(frozenset(Payload))
    hooks: ClassVar = LocalHooks()
