"""What a worker does of its own accord around the local steps between two exchanges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.tensors import Layout, State


class Moments(Protocol):
    """What a worker's optimizer remembers of its steps: momentum, second moments, step counts."""

    def reset(self) -> None:
        """Be as before the first step."""


class LocallyStepped(NamedTuple):
    """A worker after its local steps: its `weights` (numel,), those of the last exchange, and the gradient of the last step.

    `gradient` makes a copy of what the optimizer stepped on, what the rule had made of it and clipped.
    """

    weights: Tensor
    anchor: Tensor
    gradient: Callable[[], Tensor]


class MixingRule(Protocol):
    """What a worker sends in the place of its weights and beside them, where neighbours mix these, and what it makes of the mixtures."""

    @property
    def vectors(self) -> int:
        """How many it sends: one takes the place of the weights, and each of the others is mixed as that one is."""

    @property
    def least_eigenvalue(self) -> float | None:
        """The mixing matrix must be symmetric, the same in every exchange, and have no eigenvalue as small as this; None for any matrix."""

    def send(self, stepped: LocallyStepped, state: State) -> tuple[Tensor, ...]:
        """The vectors (numel,) that it sends, each a new tensor; `state` is the rule's."""

    def take(self, mixed: Sequence[Tensor], sent: Sequence[Tensor], state: State) -> tuple[Tensor, State]:
        """The weights (numel,) from which the worker goes on, and the rule's next state."""


class LocalRule(Protocol):
    """Frozen settings; what it remembers, such as dual variables, goes in as `state` and comes out."""

    @property
    def traits(self) -> LocalTraits:
        """What it declares of itself."""

    @property
    def mixing(self) -> MixingRule | None:
        """What it does where neighbours mix weights; None where they mix the weights as they are, and nothing else."""

    def initial(self, layout: Layout) -> State:
        """The state before the first step."""

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """The gradient (numel,) on which the worker's optimizer steps, in place of its own, on the CPU.

        A `componentwise` rule gets the values alone (n,) of sparse ones; rows of which it leaves nothing are dropped.
        `context.weights` are the worker's; `context.moved` is what its steps did since the last exchange, with the sign of a gradient.
        """

    def settle(self, context: ExchangeContext, state: State, moments: Moments) -> State:
        """The next state, after an exchange. `moments` are those of the worker's optimizer.

        `context.weights` are those that came of the exchange; `context.moved` is how far from them the worker's own were before it, with
        the sign of a gradient: those that came, minus its own.
        """

    def go_on(self, agreed: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        """The weights (numel,) from which a worker goes on after an exchange; only asked of a rule that declares `goes_on`.

        `agreed` are those that came of it, from which the next update counts, `own` the worker's when they came, and `sent` its own when it
        sent its update: another value than `own` only where the response comes some steps later.
        """

    def figures(self, state: State) -> Mapping[str, float]:
        """What the record of a run gets to see of the state after each exchange, by name; empty for nothing."""


@dataclass(frozen=True, slots=True)
class PlainSteps:
    """The optimizer steps on the worker's gradient, and keeps its state over exchanges."""

    traits: ClassVar = LocalTraits(frozenset(Payload), corrects=False, settles=False)
    mixing: ClassVar[None] = None

    def initial(self, layout: Layout) -> State:
        """None."""
        return {}

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """As it is."""
        return gradient

    def settle(self, context: ExchangeContext, state: State, moments: Moments) -> State:
        """As it was."""
        return state

    def go_on(self, agreed: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        """From what was agreed on."""
        return agreed

    def figures(self, state: State) -> Mapping[str, float]:
        """None."""
        return {}
